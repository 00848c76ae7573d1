"""The port's values."""

from fairlead_hub.identity import signer


def test_a_serial_number_has_one_text():
    """As openssl prints it, but lower-case and without a leading zero."""
    assert signer.serial_text(0x0ABC) == "abc" and signer.serial_text(2**158) == "4" + "0" * 39
