"""Frames and the token bucket."""

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.links.bucket import CATCH_UP_NS, TokenBucket
from daybreak.links.frames import HEADER_BYTES, BadFrame, Frame, Kind, encode, read_frame

INSTANTS = st.integers(-(2**63), 2**63 - 1)
FRAMES = st.builds(
    Frame,
    st.sampled_from(Kind),
    st.integers(0, 2**64 - 1),
    st.integers(0, 255),
    INSTANTS,
    INSTANTS,
    st.binary(max_size=300),
)


@given(st.lists(FRAMES, max_size=5))
def test_frames_survive_the_wire(frames: list[Frame]) -> None:
    stream = BytesIO(b"".join(encode(f) for f in frames))
    assert [read_frame(stream) for _ in frames] == frames
    assert read_frame(stream) is None


@given(FRAMES, st.data())
def test_a_flipped_bit_is_noticed(frame: Frame, data: st.DataObject) -> None:
    raw = bytearray(encode(frame))
    place = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[place // 8] ^= 1 << (place % 8)
    with pytest.raises(BadFrame):
        read_frame(BytesIO(bytes(raw)))


@given(FRAMES, st.data())
def test_a_cut_frame_is_noticed(frame: Frame, data: st.DataObject) -> None:
    raw = encode(frame)
    cut = data.draw(st.integers(1, len(raw) - 1))
    with pytest.raises(BadFrame):
        read_frame(BytesIO(raw[:cut]))


@given(st.binary(min_size=1, max_size=200))
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(BadFrame):
        read_frame(BytesIO(garbage))


def test_a_huge_announcement_is_refused_before_it_is_read() -> None:
    raw = encode(Frame(Kind.DATA, payload=bytes(1000)))
    stream = BytesIO(raw)
    with pytest.raises(BadFrame, match="announces 1000 bytes"):
        read_frame(stream, most_payload_bytes=999)
    assert stream.tell() == HEADER_BYTES


@given(
    bandwidth=st.floats(100, 1e6),
    sizes=st.lists(st.integers(1, 2000), min_size=1, max_size=40),
    delays_ms=st.lists(st.floats(0, 60), min_size=40, max_size=40),
)
def test_no_window_carries_more_than_its_bandwidth_and_one_tuple(
    bandwidth: float, sizes: list[int], delays_ms: list[float]
) -> None:
    """Whenever the sending thread wakes up: late, or after the link was idle."""
    bucket = TokenBucket(bandwidth, 0)
    sent: list[tuple[int, int]] = []
    now = 0
    for size, delay_ms in zip(sizes, delays_ms, strict=False):
        now = max(now, bucket.free_ns) + int(delay_ms * 1e6)
        if delay_ms > 55:
            bucket.idle(now)
        bucket.take(size, now)
        sent.append((now, size))
    for i, (begin, _) in enumerate(sent):
        carried = 0
        for end, size in sent[i:]:
            carried += size
            span_s = (end - begin + CATCH_UP_NS) / 1e9
            assert carried <= bandwidth * span_s + max(sizes) + 1


def test_a_late_wake_up_costs_no_bandwidth() -> None:
    bucket = TokenBucket(1000, 0)
    for i in range(100):
        bucket.take(100, i * 100_000_000 + 5_000_000)  # always 5 ms late
    assert bucket.free_ns == 100 * 100_000_000
