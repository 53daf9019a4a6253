"""How long it takes from the start of a tick to the effect of its command."""

SMOOTHING = 0.05
"""Weight of a new measurement in the running mean: a time constant of 20 ticks."""


class Latency:
    """Running means of the tick's own duration and of the transport, which together say when a command takes effect.

    The transport of commands is not observable here; it is taken to be that of the states, from stamp to arrival.
    """

    def __init__(self, given: float, period: float) -> None:
        """Begin with a guess.

        Args:
            given: Time from the start of a tick to the effect of its command [s]; 0: measure.
            period: Control period [s]; longer latencies are not believed.
        """
        self._given, self._period = given, period
        self._duration, self._transport = 0.3 * period, 0.0

    @property
    def value(self) -> float:
        """Time from the start of a tick to the effect of its command [s]."""
        return self._given or self._duration + self.transport

    @property
    def transport(self) -> float:
        """Time from the publication of a command to its effect [s]."""
        return min(max(0.0, self._transport), 0.5 * self._period)

    def tick(self, duration: float) -> None:
        """Take note of the time from the start of a tick to the publication of its command [s]."""
        self._duration += SMOOTHING * (min(max(0.0, duration), self._period) - self._duration)

    def state(self, transport: float) -> None:
        """Take note of the time from the stamp of a state to its arrival [s]."""
        self._transport += SMOOTHING * (min(max(0.0, transport), self._period) - self._transport)
