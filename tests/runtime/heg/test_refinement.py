from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.bench.simulation.platform import SimulatedPlatform
from agentrt.bench.simulation.rooflines import Contention
from agentrt.bench.simulation.simulation import SimulatedRequest, Simulation
from agentrt.priority import Priority
from agentrt.runtime.heg.graph import ExecutionGraph
from agentrt.runtime.heg.kernel import BatchShape, Kernel, KernelKind, Role
from agentrt.runtime.heg.profile import Curve, Profile
from agentrt.runtime.heg.refinement import ProfileRefiner
from agentrt.runtime.heg.store import ProfileStore
from agentrt.runtime.scheduler.policy import Policy
from agentrt.runtime.xpu.protocol import KernelDone
from tests.runtime.heg.test_profile import layers_kernel
from tests.runtime.tiny import made_up_profile

DECODE = BatchShape(1, 1, 0, 1)
WHOLE = layers_kernel(0, 4, last=True)


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path)


def profile(layer_s: float = 0.001) -> Profile:
    return made_up_profile(4, layer_s=layer_s, segment_s=1e-5, read_s=1e-8, pair_s=1e-9, groups=64)


def observe(refiner: ProfileRefiner, seconds: float, times: int, shape: BatchShape = DECODE) -> None:
    for _ in range(times):
        refiner.observe(Role.DECODE, WHOLE, shape, seconds)


def seconds(profile: Profile, shape: BatchShape = DECODE) -> float:
    return profile.estimate(WHOLE, shape, Role.DECODE).seconds


def layer_of(profile: Profile) -> Curve:
    costs = profile.xpus[Role.DECODE].layers
    assert costs is not None
    return costs.layer


def test_a_point_that_was_measured_badly_becomes_the_median_of_its_kernels(store: ProfileStore) -> None:
    refiner = ProfileRefiner(profile(), store)
    observe(refiner, 0.006, 7)
    assert refiner.refine() is None  # too few
    observe(refiner, 0.006, 4)
    observe(refiner, 1.0, 5)  # they waited for the processor
    refined = refiner.refine()
    assert refined is not None
    assert refiner.profile is refined
    assert seconds(refined) == pytest.approx(0.006)
    assert refiner.refine() is None  # it is right now


@pytest.mark.parametrize(("observed", "refined"), [(1.0, 0.002), (0.0, 0.0005)])
def test_one_refinement_at_most_doubles_or_halves_a_point(
    store: ProfileStore, observed: float, refined: float
) -> None:
    refiner = ProfileRefiner(profile(), store)
    observe(refiner, observed, 32)
    assert layer_of(refiner.refine() or profile()).seconds[0] == pytest.approx(refined)


def test_the_largest_part_of_a_kernel_takes_the_blame(store: ProfileStore) -> None:
    far = BatchShape(1, 1, 10_000_000, 0)  # reads 0.1 s per layer, against 0.001 s for the layer itself
    refiner = ProfileRefiner(profile(), store)
    observe(refiner, 1.2 * seconds(profile(), far), 8, far)
    refined = refiner.refine()
    assert refined is not None
    assert seconds(refined, far) == pytest.approx(1.2 * seconds(profile(), far))
    assert layer_of(refined) == layer_of(profile())


def test_kernels_within_the_noise_change_nothing(store: ProfileStore) -> None:
    refiner = ProfileRefiner(profile(), store)
    observe(refiner, 1.04 * seconds(profile()), 32)
    assert refiner.refine() is None


@given(st.dictionaries(st.integers(1, 400), st.floats(1e-5, 1.0), min_size=1, max_size=8))
def test_a_refined_profile_is_valid_and_ascends(observed: dict[int, float]) -> None:
    refiner = ProfileRefiner(profile(), ProfileStore(Path("nowhere")))
    for tokens, each in observed.items():
        observe(refiner, each, 16, BatchShape(tokens, 1, 0, 0))
    refined = refiner.refine()
    if refined is not None:
        assert Profile.model_validate_json(refined.model_dump_json()) == refined
        curve = layer_of(refined)
        assert list(curve.seconds) == sorted(curve.seconds)
        assert curve.seconds[0] > 0


@pytest.mark.parametrize("tokens", [1, 3, 32, 300])
@pytest.mark.parametrize("kind", KernelKind)
def test_the_parts_of_a_cost_add_up_to_the_estimate(kind: KernelKind, tokens: int) -> None:
    made_up = profile()
    shape = BatchShape(tokens, 1, 500, 1)
    role = Role.PREFILL if kind is KernelKind.TOKENS else Role.DECODE
    for layers in (range(1), range(2), range(3, 4)):
        kernel = Kernel(0, kind, range(layers.start, layers.start + 1), layers, (role,), layers.stop == 4)
        parts = made_up.seconds_by_figure(kernel, shape, role)
        assert sum(parts.values()) == pytest.approx(made_up.estimate(kernel, shape, role).seconds)


def test_the_store_keeps_the_refined_profile(store: ProfileStore) -> None:
    made_up = profile()
    store.profile(made_up.fingerprint, lambda: made_up)
    refiner = ProfileRefiner(made_up, store)
    observe(refiner, 0.006, 8)
    refined = refiner.refine()
    assert refined not in (None, made_up)
    assert store.profile(made_up.fingerprint, lambda: made_up) == made_up  # refining is free of I/O
    refiner.save()
    assert store.profile(made_up.fingerprint, lambda: made_up) == refined
    observe(refiner, 0.004, 32)
    again = refiner.refine()
    refiner.save()
    assert store.profile(made_up.fingerprint, lambda: made_up) == again != refined


def test_while_it_serves_a_profile_is_refined_less_and_less_often(store: ProfileStore) -> None:
    refiner = ProfileRefiner(profile(), store)
    refined_after, wanted = [], 0.003
    for kernels in range(1, 300):
        observe(refiner, wanted, 1)
        if refiner.refine_if_due() is not None:
            refined_after.append(kernels)
            wanted *= 1.5
    assert refined_after == [64, 128, 256]


@pytest.mark.parametrize("measured_again", [True, False])
def test_a_profile_that_was_measured_again_or_removed_meanwhile_stays(
    store: ProfileStore, measured_again: bool
) -> None:
    made_up, newer = profile(), profile(0.002)
    store.profile(made_up.fingerprint, lambda: made_up)
    refiner = ProfileRefiner(made_up, store)
    store.forget(made_up.fingerprint)
    if measured_again:
        store.profile(made_up.fingerprint, lambda: newer)
    observe(refiner, 0.006, 8)
    assert refiner.refine() is not None
    refiner.save()
    found = store.load(f"{made_up.fingerprint}.json", Profile)
    assert found == (newer if measured_again else None)


class Serving(Simulation):
    """A machine in virtual time whose graph has estimates that may be wrong."""

    def __init__(self, true: Profile, graph: ExecutionGraph, refiner: ProfileRefiner) -> None:
        platform = SimulatedPlatform("simulated", true, Contention())
        super().__init__(platform, graph, Policy(), blocks=512, max_batch_size=8)
        self.refiner = refiner

    def _kernel_done(self, done: KernelDone) -> None:
        self.refiner.observe(done.role, done.kernel, done.context.shape, done.ended - done.started)
        super()._kernel_done(done)

    def serve(self) -> None:
        """Serve some requests, then refine, as an engine does when it is idle."""
        for priority in Priority:
            for _ in range(3):
                self.submit(SimulatedRequest(400, 30, priority))
        self.run()
        costs = self.refiner.refine()
        if costs is not None:
            self.scheduler.use_costs(costs)


def test_serving_in_virtual_time_corrects_a_profile_that_was_measured_on_a_busy_machine(
    store: ProfileStore,
) -> None:
    true, wrong = (made_up_profile(4, layer_s=layer_s, read_s=1e-8) for layer_s in (0.001, 0.003))
    right, graph = (
        ExecutionGraph(each, (0, 1, 2, 3), block_tokens=32, max_chunk_tokens=256, quantum_s=0.005)
        for each in (true, wrong)
    )
    assert graph.chunk_tokens(0, 10_000) < right.chunk_tokens(0, 10_000)
    serving = Serving(true, graph, ProfileRefiner(wrong, store))
    for _ in range(4):
        serving.serve()
    assert graph.chunk_tokens(0, 10_000) == right.chunk_tokens(0, 10_000)
    for shape in (BatchShape(1, 1, 400, 1), BatchShape(3, 3, 1200, 3), BatchShape(160, 1, 0, 0)):
        assert graph.estimate_seconds(shape) == pytest.approx(right.estimate_seconds(shape), rel=0.05)
    assert serving.refiner.refine() is None


def test_points_that_were_not_observed_change_with_the_nearest_one(store: ProfileStore) -> None:
    """A slower machine changes no ratio by which long and short chunks are compared."""
    made_up = profile()
    refiner = ProfileRefiner(made_up, store)
    shape = BatchShape(32, 1, 0, 0)
    observe(refiner, 1.5 * seconds(made_up, shape), 16, shape)
    before, after = layer_of(made_up), layer_of(refiner.refine() or made_up)
    assert after.seconds[2] / after.seconds[1] == pytest.approx(before.seconds[2] / before.seconds[1])
    assert after.seconds[1] > 1.4 * before.seconds[1]
