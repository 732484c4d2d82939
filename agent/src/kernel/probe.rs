//! [`Probe`] loads the kernel programs, attaches those that this kernel accepts, and reports a verdict on each hook.
//!
//! No program, map or link is pinned. Only [`Probe`] has the links: dropping it, or the end of the process, detaches all
//! programs.

mod attach;
#[cfg(feature = "bench")]
pub mod bench;
pub(crate) mod error;
mod globals;
mod links;
mod loader;
mod log;
pub(crate) mod maps;
mod verdict;
#[cfg(feature = "bench")]
pub mod wide_maps;

use std::{os::fd::OwnedFd, path::PathBuf, time::Duration};

use aya::{
    Btf, Ebpf, Endianness,
    programs::{
        Program, ProgramError, ProgramInfo, ProgramType, RawTracePoint, RawTracePointRunOptions, TestRun as _,
    },
    sys::{Stats, enable_stats, is_program_supported},
};
use headroom_kit::log::chain;
use rustix::process::{Resource, Rlimit, setrlimit};
use tracing::warn;

pub use self::{
    error::{ProbeError, Refused},
    log::LogDrain,
    maps::KernelMaps,
    verdict::{Health, HookVerdict},
};
use self::{links::HookLink, verdict::Refusal};
pub use crate::kernel::hooks::{Flavour, Hook};
use crate::{
    kernel::{
        btf::{KernelTypes, VMLINUX},
        events::KernelEvents,
        heap,
    },
    sample::clock,
};

/// The kernel programs; `None` in an agent built without them.
#[cfg(headroom_bpf)]
static OBJECT: Option<&[u8]> = Some(aya::include_bytes_aligned!(concat!(
    env!("OUT_DIR"),
    "/headroom-agent-ebpf"
)));
#[cfg(not(headroom_bpf))]
static OBJECT: Option<&[u8]> = None;

/// Returns true if the agent was built with its kernel programs.
pub const fn is_built_in() -> bool {
    OBJECT.is_some()
}

/// Options for loading the kernel programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Path of the kernel's BTF. A file other than [`VMLINUX`] is for kernels without BTF; raw tracepoints are used then.
    pub btf: PathBuf,
    /// True to try BTF tracepoints before raw ones.
    pub typed: bool,
    /// Let the kernel count runs and run time of all BPF programs on this machine while the probe exists. Costs 25 to 30
    /// ns per run and needs CAP_SYS_ADMIN.
    pub program_stats: bool,
}

/// The kernel's statistics of one of our programs, counted while statistics were on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    pub hook: Hook,
    /// Program id.
    pub id: u32,
    pub count: u64,
    /// Total run time.
    pub time: Duration,
    /// Size of the program after verification, in bytes.
    pub translated_bytes: u32,
    /// Size of its machine code, in bytes; 0 without a JIT.
    pub jited_bytes: u32,
}

/// Loaded and attached kernel programs.
#[derive(Debug)]
pub struct Probe {
    /// One for each hook that is attached now.
    links: Vec<HookLink>,
    ebpf: Ebpf,
    /// Verdict on each hook when the programs were loaded.
    loaded: Vec<HookVerdict>,
    /// Current verdict on each hook.
    verdicts: Vec<HookVerdict>,
    attached_ns: u64,
    maps: Option<KernelMaps>,
    events: Option<KernelEvents>,
    log: Option<LogDrain>,
    /// Statistics stay on while this is open.
    _stats: Option<OwnedFd>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            btf: PathBuf::from(VMLINUX),
            typed: true,
            program_stats: false,
        }
    }
}

impl Runs {
    fn read(hook: Hook, program: &ProgramInfo) -> Self {
        Self {
            hook,
            id: program.id(),
            count: program.run_count(),
            time: program.run_time(),
            translated_bytes: program.size_translated().unwrap_or(0),
            jited_bytes: program.size_jitted(),
        }
    }
}

impl Probe {
    /// Loads the kernel programs and attaches one to each hook: the typed one, else its raw fallback.
    ///
    /// Blocks for about 50 ms, mainly in the verifier and while reading the kernel's BTF. Call it after logging is set up.
    ///
    /// # Errors
    /// [`ProbeError`]. Only a mandatory hook that is refused is an error; the verdicts state the others, and [`Hook::loss`]
    /// what is missing.
    pub fn load(options: &Options) -> Result<Self, ProbeError> {
        let object = OBJECT.ok_or(ProbeError::NotBuilt)?;
        let loaded = Self::load_object(object, options);
        heap::trim();
        loaded
    }

    fn load_object(object: &[u8], options: &Options) -> Result<Self, ProbeError> {
        let kernel = KernelTypes::read(&options.btf)?;
        let globals = globals::constants(&kernel)?;
        let shapes = Hook::ALL
            .map(|hook| kernel.check_arguments(hook.tracepoint(), hook.task_arguments(), "task_struct"));
        let tracepoints = if options.typed {
            globals::tracepoints(kernel, &options.btf)
        } else {
            drop(kernel);
            None
        };
        check_programs()?;

        unlimit_locked_memory();
        let mut loader = loader::new();
        loader.map_max_entries(log::MAP, log::MAP_BYTES);
        for (name, value) in &globals {
            loader.override_global(name, value, true);
        }
        let mut ebpf = loader
            .load(object)
            .map_err(|error| ProbeError::Load(Box::new(error)))?;
        let log = LogDrain::open(&mut ebpf).map_err(|error| ProbeError::Log(Box::new(error)))?;
        let maps = KernelMaps::open(&mut ebpf)?;
        let events = KernelEvents::open(&mut ebpf)?;
        let stats = options.program_stats.then(run_statistics).flatten();

        let btf = tracepoints.and_then(|file| Btf::parse(&file, Endianness::default()).ok());
        let attached_ns = clock::monotonic_ns();
        let (mut links, mut verdicts) = (Vec::new(), Vec::new());
        for (hook, shape) in Hook::ALL.into_iter().zip(shapes) {
            let (verdict, link) = match shape {
                Ok(()) => attach::attach(&mut ebpf, hook, btf.as_ref()),
                Err(error) => (
                    HookVerdict::refused(hook, Refusal::unsupported(chain(&error).to_string())),
                    None,
                ),
            };
            links.extend(link.map(|link| HookLink::new(hook, link)));
            verdicts.push(verdict);
        }
        if lacks_mandatory(&links) {
            return Err(ProbeError::refused(&verdicts));
        }
        Ok(Self {
            links,
            ebpf,
            loaded: verdicts.clone(),
            verdicts,
            attached_ns,
            maps: Some(maps),
            events: Some(events),
            log: Some(log),
            _stats: stats,
        })
    }

    /// Current verdict on each hook, `sched_switch` last. A hook that could not be re-attached is [`Health::Failed`]; a hook
    /// that the agent detached keeps its verdict.
    pub fn verdicts(&self) -> &[HookVerdict] {
        &self.verdicts
    }

    /// Time at which the programs were attached, in CLOCK_MONOTONIC nanoseconds. The counters start then.
    pub const fn attached_ns(&self) -> u64 {
        self.attached_ns
    }

    /// The counters for a [`ring::RingSource`](crate::sample::ring::RingSource); `None` after the first call.
    pub const fn take_maps(&mut self) -> Option<KernelMaps> {
        self.maps.take()
    }

    /// The counters of rare events; `None` after the first call.
    pub const fn take_events(&mut self) -> Option<KernelEvents> {
        self.events.take()
    }

    /// Returns true if the counters can be read. Called after capabilities were dropped.
    pub fn can_count(&mut self) -> bool {
        self.events.as_mut().is_some_and(|events| events.read().is_ok())
    }

    /// The programs' log; `None` after the first call.
    pub const fn take_log(&mut self) -> Option<LogDrain> {
        self.log.take()
    }

    /// Detaches the programs. They stay loaded, and their counters stay readable.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Detaches only the programs of these hooks.
    pub fn detach_from(&mut self, hooks: &[Hook]) {
        self.links.retain(|link| !hooks.contains(&link.hook));
    }

    /// Re-attaches detached programs. Events in between are not counted, and each CPU's next switch reports one missed
    /// switch. Links are made from programs that are already loaded, so this needs no capability.
    ///
    /// # Errors
    /// The error of the last hook that was refused, also in its verdict; the other programs are attached anyway.
    pub fn attach(&mut self) -> Result<(), Refused> {
        let mut result = Ok(());
        for (loaded, verdict) in self.loaded.iter().zip(&mut self.verdicts) {
            let hook = loaded.hook;
            let is_attached = self.links.iter().any(|link| link.hook == hook);
            let Some(flavour) = loaded.flavour.filter(|_| !is_attached) else {
                continue;
            };
            match attach::link(&mut self.ebpf, hook, flavour) {
                Ok(link) => {
                    self.links.push(HookLink::new(hook, link));
                    verdict.clone_from(loaded);
                }
                Err(error) => {
                    let reason = Refusal::from(error).reason;
                    *verdict = loaded.lost(&reason);
                    result = Err(Refused { hook, reason });
                }
            }
        }
        result
    }

    /// The first hook whose link another process has removed; its program no longer runs.
    pub fn lost_link(&self) -> Option<Hook> {
        self.links
            .iter()
            .find(|link| link.is_gone())
            .map(|link| link.hook)
    }

    /// Returns true if the program of this hook is attached now.
    pub fn is_attached(&self, hook: Hook) -> bool {
        self.links.iter().any(|link| link.hook == hook)
    }

    /// Returns true if a mandatory hook is not attached.
    pub fn lacks_mandatory_hook(&self) -> bool {
        lacks_mandatory(&self.links)
    }

    /// Runs a program once for the calling thread, as if its event had occurred with these arguments (at most twelve, the
    /// others zero). Only for hooks that are attached with their raw fallback and follow no pointer.
    ///
    /// # Errors
    /// The kernel refuses, as it does for typed programs.
    pub fn test_run(&self, hook: Hook, arguments: &[u64]) -> Result<(), ProgramError> {
        let name = hook.program(Flavour::Raw);
        let program = self.ebpf.program(name).ok_or_else(|| ProgramError::InvalidName {
            name: name.to_owned(),
        })?;
        let program: &RawTracePoint = program.try_into()?;
        let mut options = RawTracePointRunOptions::default();
        for (slot, argument) in options.args.iter_mut().zip(arguments) {
            *slot = *argument;
        }
        program.test_run(options).map(|_ended| ())
    }

    /// The kernel's statistics of each program: zero runs unless [`Options::program_stats`] or the sysctl
    /// `kernel.bpf_stats_enabled` is on.
    ///
    /// # Errors
    /// The kernel refuses information on a program.
    pub fn runs(&self) -> Result<Vec<Runs>, ProgramError> {
        attached(&self.loaded)
            .filter_map(|(hook, flavour)| Some((hook, self.ebpf.program(hook.program(flavour))?)))
            .map(|(hook, program)| Ok(Runs::read(hook, &information(program)?)))
            .collect()
    }
}

fn lacks_mandatory(links: &[HookLink]) -> bool {
    let mut mandatory = Hook::ALL.into_iter().filter(|hook| hook.is_mandatory());
    mandatory.any(|hook| !links.iter().any(|link| link.hook == hook))
}

/// Raises the limit on locked memory, which includes maps before Linux 5.11. If that is refused, creating maps fails later.
fn unlimit_locked_memory() {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    let _best_effort = setrlimit(Resource::Memlock, unlimited).is_ok();
}

/// Lets the kernel count runs while the result is open; `None` if it refuses.
fn run_statistics() -> Option<OwnedFd> {
    let refused = |error| {
        warn!(error = %chain(&error), "cannot count the runs of the kernel programs; this needs CAP_SYS_ADMIN");
    };
    enable_stats(Stats::RunTime).map_err(refused).ok()
}

/// Checks that a program can be loaded at all; later steps would fail with a less useful error.
fn check_programs() -> Result<(), ProbeError> {
    let Refusal { health, reason, .. } = match is_program_supported(ProgramType::RawTracePoint) {
        Ok(true) => return Ok(()),
        Ok(false) => {
            Refusal::unsupported("this kernel does not load raw tracepoint programs, which need Linux 4.17")
        }
        Err(error) => error.into(),
    };
    Err(ProbeError::NoPrograms { health, reason })
}

fn information(program: &Program) -> Result<ProgramInfo, ProgramError> {
    program.info()
}

/// Hooks with a loaded program, and its flavour.
fn attached(verdicts: &[HookVerdict]) -> impl Iterator<Item = (Hook, Flavour)> {
    let flavoured = |verdict: &HookVerdict| Some((verdict.hook, verdict.flavour?));
    verdicts.iter().filter_map(flavoured)
}
