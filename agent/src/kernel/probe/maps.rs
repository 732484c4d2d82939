//! `KernelMaps` gives the sampler the maps of the loaded programs: it reads their counters and writes their
//! configuration.

use aya::{
    Ebpf,
    maps::{Array, MapData, MapError, PerCpuArray},
};
use headroom_agent_ebpf::{Config, CpuRing, MAP_CFG, MAP_CPU, MAP_RQH, histogram::BUCKETS};

use super::ProbeError;
use crate::sample::{
    SampleError,
    ring::{Counters, Rings},
};

/// Maps of the kernel's counters. They stay readable after the programs are detached and capabilities are dropped.
pub struct KernelMaps {
    cpu: PerCpuArray<MapData, CpuRing>,
    rqh: PerCpuArray<MapData, Counters>,
    cfg: Array<MapData, Config>,
}

impl std::fmt::Debug for KernelMaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelMaps").finish_non_exhaustive()
    }
}

impl KernelMaps {
    pub(super) fn open(ebpf: &mut Ebpf) -> Result<Self, ProbeError> {
        let mut taken = |name| ebpf.take_map(name).ok_or(ProbeError::NoMap { name });
        let (cpu, rqh, cfg) = (taken(MAP_CPU)?, taken(MAP_RQH)?, taken(MAP_CFG)?);
        let layout = |name| move |source| ProbeError::Map { name, source };
        Ok(Self {
            cpu: PerCpuArray::try_from(cpu).map_err(layout(MAP_CPU))?,
            rqh: PerCpuArray::try_from(rqh).map_err(layout(MAP_RQH))?,
            cfg: Array::try_from(cfg).map_err(layout(MAP_CFG))?,
        })
    }
}

impl Rings for KernelMaps {
    fn rings(&mut self) -> Result<Vec<CpuRing>, SampleError> {
        Ok(self.cpu.get(&0, 0).map_err(failed(MAP_CPU))?.to_vec())
    }

    fn waits(&mut self, generation: u32) -> Result<Vec<Counters>, SampleError> {
        Ok(self.rqh.get(&generation, 0).map_err(failed(MAP_RQH))?.to_vec())
    }

    fn configure(&mut self, config: Config) -> Result<(), SampleError> {
        self.cfg.set(0, config, 0).map_err(failed(MAP_CFG))
    }
}

const _: () = assert!(size_of::<Counters>() == BUCKETS * 8);

pub(crate) fn failed(map: &'static str) -> impl FnOnce(MapError) -> SampleError {
    move |source| SampleError::Map {
        map,
        source: Box::new(source),
    }
}
