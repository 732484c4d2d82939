//! Loads the kernel programs that `headroom-bench` compares with the agent's own. Compiled only with the feature
//! `bench`, which `headroom-bench` enables.

use std::os::fd::OwnedFd;

use aya::{
    Btf, Ebpf, Endianness,
    maps::{MapError, PerCpuArray},
    programs::{BtfTracePoint, ProgramError, links::FdLink},
    sys::{Stats, enable_stats},
};
use headroom_agent_ebpf as abi;

use super::{Hook, ProbeError, Runs, globals::constants, loader};
use crate::kernel::btf::{BtfError, KernelTypes, VMLINUX};

/// The programs; `None` if they could not be built.
#[cfg(headroom_bpf)]
static OBJECT: Option<&[u8]> = Some(aya::include_bytes_aligned!(concat!(
    env!("OUT_DIR"),
    "/headroom-bench-ebpf"
)));
#[cfg(not(headroom_bpf))]
static OBJECT: Option<&[u8]> = None;

/// Waits by powers of two of microseconds.
const MAP_WAITS: &str = "WAITS";

/// Programs that are compared with the agent's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// A program at `sched_switch` that does nothing.
    Empty,
    /// One at each hook of run-queue latency that does nothing.
    EmptyHooks,
    /// Run-queue latency of every task with start times in a hash and task fields fetched by a helper.
    Hash,
}

/// Error of loading or reading the compared programs.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Error that the agent's own programs can have, too.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The kernel's BTF cannot be read.
    #[error("read the kernel's BTF")]
    Btf(#[source] aya::BtfError),
    /// The counts of waits cannot be read.
    #[error("read map `{MAP_WAITS}`")]
    Waits(#[source] MapError),
    /// The kernel refused a program.
    #[error("load or attach `{name}`")]
    Program {
        /// Name of the program in the object.
        name: &'static str,
        #[source]
        source: ProgramError,
    },
}

/// Loaded programs of one shape, attached on demand.
#[derive(Debug)]
pub struct Peer {
    programs: &'static [(Hook, &'static str)],
    links: Vec<FdLink>,
    ebpf: Ebpf,
    /// Statistics stay on while this is open.
    _stats: Option<OwnedFd>,
}

impl Shape {
    pub const ALL: [Self; 3] = [Self::Empty, Self::EmptyHooks, Self::Hash];

    const fn programs(self) -> &'static [(Hook, &'static str)] {
        match self {
            Self::Empty => &[(Hook::SchedSwitch, "empty_switch")],
            Self::EmptyHooks => &[
                (Hook::SchedWakeup, "empty_wakeup"),
                (Hook::SchedWakeupNew, "empty_wakenew"),
                (Hook::SchedSwitch, "empty_switch"),
            ],
            Self::Hash => &[
                (Hook::SchedWakeup, "hash_wakeup"),
                (Hook::SchedWakeupNew, "hash_wakenew"),
                (Hook::SchedSwitch, "hash_switch"),
            ],
        }
    }
}

impl Peer {
    /// Loads the programs of a shape, for now detached. With `program_stats` the kernel counts runs of all programs on
    /// this machine while the peer lives.
    ///
    /// # Errors
    /// If they were not built in, or the kernel refuses them.
    pub fn load(shape: Shape, program_stats: bool) -> Result<Self, PeerError> {
        let object = OBJECT.ok_or(ProbeError::NotBuilt)?;
        let programs = shape.programs();
        let tracepoints: Vec<_> = programs.iter().map(|(hook, _)| hook.tracepoint()).collect();
        let (offsets, tracepoints) = KernelTypes::read(VMLINUX.as_ref())
            .and_then(|kernel| Ok((offsets(&kernel)?, kernel.excerpt(&tracepoints))))
            .map_err(ProbeError::Btf)?;
        let mut loader = loader::new();
        for (name, value) in &offsets {
            loader.override_global(name, value, true);
        }
        let mut ebpf = loader
            .load(object)
            .map_err(|error| ProbeError::Load(Box::new(error)))?;
        let stats = program_stats
            .then(|| enable_stats(Stats::RunTime))
            .transpose()
            .map_err(ProbeError::Stats)?;
        let btf = Btf::parse(&tracepoints, Endianness::default()).map_err(PeerError::Btf)?;
        for (hook, name) in programs {
            let loaded = program(&mut ebpf, name).and_then(|program| program.load(hook.tracepoint(), &btf));
            loaded.map_err(|source| PeerError::Program { name, source })?;
        }
        Ok(Self {
            programs,
            links: Vec::new(),
            ebpf,
            _stats: stats,
        })
    }

    /// Attaches the programs.
    ///
    /// # Errors
    /// The kernel refuses one; programs that are already attached stay attached.
    pub fn attach(&mut self) -> Result<(), PeerError> {
        for (_hook, name) in self.programs {
            let link = program(&mut self.ebpf, name)
                .and_then(|program| program.attach().and_then(|id| program.take_link(id)));
            let link = link.map_err(|source| PeerError::Program { name, source })?;
            self.links.push(link.into());
        }
        Ok(())
    }

    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// The kernel's statistics of each program, if statistics are on.
    ///
    /// # Errors
    /// The kernel refuses information on a program.
    pub fn runs(&mut self) -> Result<Vec<Runs>, PeerError> {
        let Self { programs, ebpf, .. } = self;
        let runs_of = |(hook, name): &(Hook, &'static str)| {
            let runs = program(ebpf, name).and_then(|program| Ok(Runs::read(*hook, &program.info()?)));
            runs.map_err(|source| PeerError::Program { name, source })
        };
        programs.iter().map(runs_of).collect()
    }

    /// Waits that [`Shape::Hash`] has counted, on all CPUs.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn waits(&self) -> Result<u64, PeerError> {
        let map = self
            .ebpf
            .map(MAP_WAITS)
            .ok_or(ProbeError::NoMap { name: MAP_WAITS })?;
        let slots = PerCpuArray::<_, u64>::try_from(map).map_err(PeerError::Waits)?;
        let mut waits = 0;
        for slot in slots.iter() {
            waits += slot.map_err(PeerError::Waits)?.iter().sum::<u64>();
        }
        Ok(waits)
    }
}

/// The agent's offsets that the programs use.
fn offsets(kernel: &KernelTypes) -> Result<Vec<(&'static str, u64)>, BtfError> {
    let asked = [abi::GLOBAL_OFF_PID, abi::GLOBAL_OFF_STATE, abi::GLOBAL_STATE_W];
    let known = constants(kernel)?.into_iter();
    Ok(known.filter(|(name, _)| asked.contains(name)).collect())
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, ProgramError> {
    ebpf.program_mut(name)
        .ok_or_else(|| ProgramError::InvalidName {
            name: name.to_owned(),
        })?
        .try_into()
}
