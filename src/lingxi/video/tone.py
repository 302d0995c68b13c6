"""HDR and wide colours to what every screen shows, as a table that is computed once and looked up for each pixel.

Input is BT.2020 with the curve of PQ (SMPTE ST 2084), HLG (ITU-R BT.2100, shown at 1,000 cd/m²) or SDR (BT.1886); output
is BT.709 with BT.1886's curve. Light is scaled so that diffuse white (203 cd/m², ITU-R BT.2408) is 1; what is below the knee
stays as it is, what is above is compressed up to the peak of 1,000 cd/m², by the brightest of the three channels, so that
hues stay.
"""

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lingxi.video.colours import HLG, PQ

GRID: Final = 33

WHITE_NITS: Final = 203.0
PEAK_NITS: Final = 1000.0
_KNEE: Final = 0.6
_GAMMA: Final = 2.4
_TO_709: Final = np.array(
    [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]]
)

Floats = NDArray[np.float64]


def to_sdr(coded: Floats, transfer: int) -> Floats:
    """Coded RGB in BT.2020 (…, 3) from 0 to 1 as coded RGB in BT.709 for an ordinary screen."""
    light = _light(coded, transfer) @ _TO_709.T
    light = np.maximum(light, 0.0)
    if transfer in (PQ, HLG):
        brightest = light.max(axis=-1, keepdims=True)
        light = light * (_compress(brightest) / np.maximum(brightest, 1e-9))
    return np.asarray(np.clip(light, 0.0, 1.0) ** (1 / _GAMMA))


def write_table(path: Path, transfer: int) -> None:
    """The table for `lut3d`, in the .cube format: red changes fastest."""
    axis = np.linspace(0.0, 1.0, GRID)
    blue, green, red = np.meshgrid(axis, axis, axis, indexing="ij")
    table = to_sdr(np.stack([red, green, blue], axis=-1).reshape(-1, 3), transfer)
    with path.open("w", encoding="ascii") as file:
        file.write(f"LUT_3D_SIZE {GRID}\n")
        np.savetxt(file, table, fmt="%.6f")


def _light(coded: Floats, transfer: int) -> Floats:
    """Linear light; diffuse white is 1."""
    if transfer == PQ:
        power = np.maximum(coded, 0.0) ** (1 / 78.84375)
        nits = 10_000 * (np.maximum(power - 0.8359375, 0.0) / (18.8515625 - 18.6875 * power)) ** (
            1 / 0.1593017578125
        )
        return np.asarray(nits / WHITE_NITS)
    if transfer == HLG:
        a, b, c = 0.17883277, 0.28466892, 0.55991073
        scene = np.where(coded <= 0.5, coded**2 / 3, (np.exp((coded - c) / a) + b) / 12)
        luma = scene @ np.array([0.2627, 0.6780, 0.0593])
        return np.asarray(PEAK_NITS / WHITE_NITS * scene * np.maximum(luma, 1e-9)[..., None] ** 0.2)
    return np.asarray(np.maximum(coded, 0.0) ** _GAMMA)


def _compress(light: Floats) -> Floats:
    """Up to the knee as it is; above it towards 1 at the peak, with no kink at the knee."""
    peak = PEAK_NITS / WHITE_NITS
    steepness = (peak - _KNEE) / (1 - _KNEE)
    above = np.clip((light - _KNEE) / (peak - _KNEE), 0.0, None)
    curved = _KNEE + (1 - _KNEE) * steepness * above / (1 + (steepness - 1) * above)
    return np.where(light <= _KNEE, light, np.minimum(curved, 1.0))
