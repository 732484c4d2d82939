//! `WideMaps` are maps as large as those of a machine with 256 CPUs, for `headroom-bench`: the cost of reading them is
//! measured on any machine. Compiled only with the feature `bench`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aya::maps::{Array, MapData, MapError};
use headroom_agent_ebpf::{
    Config, CpuRing, MAP_CFG, MAP_CPU, MAP_RQH, RQH_GENERATIONS,
    ring::{W_SHIFT, WINDOW_NS},
};

use super::maps::failed;
use crate::sample::{
    SampleError,
    ring::{Counters, Rings},
};

/// Number of CPUs in the maps.
pub const CPUS: usize = 256;

/// Maps that no kernel program writes to. A value of a plain array is as long as all values of a per-CPU map, so reading it
/// copies as many bytes. A real machine of that size costs more: each CPU has its values in its own cache, and half-done
/// updates repeat copies. Clones share the maps: one is read, another written.
#[derive(Clone, Debug)]
pub struct WideMaps(Arc<Mutex<Inner>>);

struct Inner {
    cpu: Array<MapData, [CpuRing; CPUS]>,
    rqh: Array<MapData, [Counters; CPUS]>,
    cfg: Array<MapData, Config>,
    /// Next value of `cpu`.
    rings: Vec<CpuRing>,
    /// The first window that `cpu` does not contain.
    next: u64,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl WideMaps {
    /// Creates maps of CPUs that have been idle up to `now_ns` (CLOCK_MONOTONIC).
    ///
    /// # Errors
    /// The kernel refuses a map.
    pub fn new(now_ns: u64) -> Result<Self, MapError> {
        let mut rings = vec![CpuRing::default(); CPUS];
        for ring in &mut rings {
            ring.settle(now_ns, false);
        }
        Ok(Self(Arc::new(Mutex::new(Inner {
            cpu: Array::create(1, 0)?,
            rqh: Array::create(RQH_GENERATIONS, 0)?,
            cfg: Array::create(1, 0)?,
            rings,
            next: (now_ns >> W_SHIFT) + 1,
        }))))
    }

    /// Makes each CPU busy and idle again in each window up to `now_ns`, so that every slot is used.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn run_until(&self, now_ns: u64) -> Result<(), MapError> {
        let mut inner = self.lock();
        let Inner { cpu, rings, next, .. } = &mut *inner;
        let end = now_ns >> W_SHIFT;
        for window in *next..end {
            let start = window << W_SHIFT;
            for ring in rings.iter_mut() {
                ring.turn(start, true);
                ring.turn(start + WINDOW_NS / 2, false);
            }
        }
        *next = end.max(*next);
        match <&[CpuRing; CPUS]>::try_from(rings.as_slice()) {
            Ok(rings) => cpu.set(0, rings, 0),
            Err(_other_length) => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rings for WideMaps {
    fn rings(&mut self) -> Result<Vec<CpuRing>, SampleError> {
        Ok(self.lock().cpu.get(&0, 0).map_err(failed(MAP_CPU))?.to_vec())
    }

    fn waits(&mut self, generation: u32) -> Result<Vec<Counters>, SampleError> {
        Ok(self
            .lock()
            .rqh
            .get(&generation, 0)
            .map_err(failed(MAP_RQH))?
            .to_vec())
    }

    fn configure(&mut self, config: Config) -> Result<(), SampleError> {
        self.lock().cfg.set(0, config, 0).map_err(failed(MAP_CFG))
    }
}
