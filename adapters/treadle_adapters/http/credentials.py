"""Credentials: read when needed, sent in a header, shown nowhere (X1)."""

from __future__ import annotations

import os

from treadle import Failure, MisuseError, ModelFailure
from treadle.models import Code


class Credential:
    """An API key, given or named by an environment variable that is read at each attempt.

    Args:
        value: the key itself.
        env: name of the environment variable that holds it.

    Raises:
        MisuseError: both are given.
    """

    __slots__ = ("__value", "env")

    def __init__(self, value: str | None = None, env: str | None = None) -> None:
        if value is not None and env is not None:
            raise MisuseError("give either api_key or api_key_env, not both")
        self.__value = value
        self.env = env

    def read(self) -> str | None:
        """The key, ``None`` when the endpoint needs none.

        Raises:
            ModelFailure: MISSING_CREDENTIAL when it is empty or its variable is not set; INVALID_CREDENTIAL when it
                holds characters that no header can carry (Q7). Neither shows the key (X1).
        """
        if self.__value is None and self.env is None:
            return None
        value = (self._peek() or "").strip()
        if not value:
            where = f"set the environment variable {self.env}" if self.env else "api_key is empty"
            raise ModelFailure(Failure(f"no API key for this model: {where}", Code.MISSING_CREDENTIAL.value))
        if not value.isascii() or not value.isprintable() or " " in value:
            where = f"the environment variable {self.env}" if self.env else "api_key"
            text = f"the API key in {where} holds characters that cannot be sent: only printable ASCII without spaces"
            raise ModelFailure(Failure(text, Code.INVALID_CREDENTIAL.value))
        return value

    def _peek(self) -> str | None:
        return os.environ.get(self.env) if self.env is not None else self.__value

    def secrets(self) -> tuple[str, ...]:
        """What must not be shown, as far as it is known now; never raises."""
        value = (self._peek() or "").strip()
        return (value,) if value else ()

    def __repr__(self) -> str:
        if self.env is not None:
            return f"<Credential from {self.env}>"
        return "<Credential given>" if self.__value is not None else "<no Credential>"
