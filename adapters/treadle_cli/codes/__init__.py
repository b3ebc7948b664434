"""What each code means and what to do about it: `treadle explain`, and the page of the reference."""
