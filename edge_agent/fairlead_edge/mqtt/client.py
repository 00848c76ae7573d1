"""Who may connect: a module or device by its certificate or token, or any program where that is allowed."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from fairlead_edge import ascii_case
from fairlead_edge.module_tokens import ModuleTokens
from fairlead_edge.mqtt.limits import CLIENT_ID_CHARS_MAX
from fairlead_edge.mqtt.packets import Connect
from fairlead_edge.mqtt.reasons import Code, MqttRefused

_CLIENT_ID: Final = re.compile(rf"[^\x00-\x20\x7f]{{1,{CLIENT_ID_CHARS_MAX}}}")
_NAME: Final = re.compile(r"[^/+#\x00-\x20\x7f]{1,128}")


class MqttClient(msgspec.Struct, frozen=True):
    """``module``: the module that authenticated, "" for any program on the node.  ``id``: the client identifier."""

    module: str
    id: str


class ClientAdmission(msgspec.Struct, frozen=True):
    """Decides who may connect.  ``required``: a certificate or a token is required."""

    node: str
    required: bool
    tokens: ModuleTokens | None = None

    def admit(self, connect: Connect, certificate: str | None, new_id: str) -> MqttClient:
        """Authenticate a client.  Raises ``MqttRefused``.

        ``certificate`` is the name in the client's certificate, None if it has none; ``new_id`` is the identifier for a
        client without one.
        """
        module = self._module(connect, certificate)
        if not connect.client_id:
            if connect.level == 4 and not connect.clean:
                raise MqttRefused(Code.CLIENT_IDENTIFIER_NOT_VALID, "a session that is kept needs a client identifier")
            return MqttClient(module, f"{module}/{new_id}" if module else new_id)
        if not _CLIENT_ID.fullmatch(connect.client_id):
            reason = f"a client identifier has 1 to {CLIENT_ID_CHARS_MAX} characters and no blanks"
            raise MqttRefused(Code.CLIENT_IDENTIFIER_NOT_VALID, reason)
        if certificate is not None and not self._agrees(connect.client_id, module):
            reason = f"with the certificate of {module}, the client identifier must be {module} or begin with {module}/"
            raise MqttRefused(Code.CLIENT_IDENTIFIER_NOT_VALID, reason)
        return MqttClient(module, connect.client_id)

    def _module(self, connect: Connect, certificate: str | None) -> str:
        if certificate is not None:
            name = certificate.removeprefix(f"{self.node}/")
            if not _NAME.fullmatch(name):
                raise MqttRefused(Code.NOT_AUTHORIZED, "the name in the certificate is not that of a module or device")
            return name
        if connect.password is not None and self.tokens is not None:
            # No token has invalid UTF-8, so a password with replacement characters matches none.
            module = self.tokens.module_of(connect.password.decode(errors="replace"))
            if not module:
                raise MqttRefused(Code.BAD_USER_NAME_OR_PASSWORD, "the password is not the token of a module")
            return module
        if self.required:
            raise MqttRefused(
                Code.BAD_USER_NAME_OR_PASSWORD, "a certificate, or a module's token as the password, is required"
            )
        return ""

    def _agrees(self, client_id: str, module: str) -> bool:
        """Modules of Azure IoT Edge put the device's name before their own."""
        own = client_id.removeprefix(f"{self.node}/")
        return ascii_case.same(own.partition("/")[0], module)
