"""Which pictures are HDR, or of wide colours: known from their tags. (`tone` knows what to do, and takes numpy, which takes
as long to import as a second of video to decode.)"""

from typing import Final

PQ, HLG = 16, 18  # transfers of H.273, as PyAV gives them
BT2020: Final = 9  # primaries


def needs_table(transfer: int, primaries: int) -> bool:
    """Has it to be brought to BT.709 and SDR?"""
    return transfer in (PQ, HLG) or primaries == BT2020
