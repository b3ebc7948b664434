"""What treadle promises, in executable form: cases, properties, kits and the rig."""
