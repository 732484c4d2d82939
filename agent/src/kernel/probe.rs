//! [`Probe`] loads the kernel programs, attaches those that this kernel accepts, and reports a verdict on each hook.
//!
//! Nothing is pinned. The links live in [`Probe`] and nowhere else: dropping it, or dying, detaches everything.

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

/// Was the agent built with its kernel programs?
pub const fn is_built_in() -> bool {
    OBJECT.is_some()
}

/// How to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where the kernel's BTF is; another file than [`VMLINUX`] serves kernels that carry none, with raw tracepoints.
    pub btf: PathBuf,
    /// Try BTF tracepoints first? Otherwise raw ones only.
    pub typed: bool,
    /// Have the kernel count runs and run time of all programs on this machine while the probe lives. Costs 25 to 30
    /// ns a run and needs CAP_SYS_ADMIN.
    pub program_stats: bool,
}

/// What the kernel counted of one of our programs, while statistics were on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// The hook.
    pub hook: Hook,
    /// The kernel's number for the program.
    pub id: u32,
    /// Runs.
    pub count: u64,
    /// Time spent in them.
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
    /// What became of each hook when the programs were loaded.
    loaded: Vec<HookVerdict>,
    /// What has become of it since.
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
    /// Blocks for some 50 ms, most of it in the verifier and in reading the kernel's BTF. To be called after logging is set
    /// up.
    ///
    /// # Errors
    /// When there is no way to count: see [`ProbeError`]. Another hook than `sched_switch` that is refused is not an
    /// error; the verdict tells, and [`Hook::loss`] what is missing.
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
                    HookVerdict::refused(hook, Refusal::unsupported(error.to_string())),
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

    /// What became of each hook, `sched_switch` last: [`Health::Ok`], unless it could not be attached again. A hook that
    /// was detached on purpose is as it was before.
    pub fn verdicts(&self) -> &[HookVerdict] {
        &self.verdicts
    }

    /// When the programs were attached, in CLOCK_MONOTONIC nanoseconds; nothing earlier was counted.
    pub const fn attached_ns(&self) -> u64 {
        self.attached_ns
    }

    /// The counters, for a [`ring::RingSource`](crate::sample::ring::RingSource). They can be taken once.
    pub const fn take_maps(&mut self) -> Option<KernelMaps> {
        self.maps.take()
    }

    /// Counters of rare events. They can be taken once.
    pub const fn take_events(&mut self) -> Option<KernelEvents> {
        self.events.take()
    }

    /// Can the counters be read? Asked after capabilities were given up.
    pub fn can_count(&mut self) -> bool {
        self.events.as_mut().is_some_and(|events| events.read().is_ok())
    }

    /// What the programs log. It can be taken once.
    pub const fn take_log(&mut self) -> Option<LogDrain> {
        self.log.take()
    }

    /// Detaches the programs. They stay loaded, and their counters stay readable.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Detaches the programs of these hooks alone.
    pub fn detach_from(&mut self, hooks: &[Hook]) {
        self.links.retain(|link| !hooks.contains(&link.hook));
    }

    /// Attaches again what was detached. What happened between is missing from the counters, and each CPU's next switch
    /// finds one missed. A link is made from the program that is loaded already, so this needs no capability.
    ///
    /// # Errors
    /// That of the last hook that was refused, which its verdict tells, too; the other programs are attached all the same.
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

    /// The first hook whose link somebody else has taken away; its program is called no more.
    pub fn lost_link(&self) -> Option<Hook> {
        self.links
            .iter()
            .find(|link| link.is_gone())
            .map(|link| link.hook)
    }

    /// Is the program of this hook attached now?
    pub fn is_attached(&self, hook: Hook) -> bool {
        self.links.iter().any(|link| link.hook == hook)
    }

    /// Returns true if a hook without which nothing is counted is not attached.
    pub fn lacks_mandatory_hook(&self) -> bool {
        lacks_mandatory(&self.links)
    }

    /// Runs a program once for the calling thread, as if its event had happened with these arguments (at most twelve,
    /// the others zero). For hooks that are attached by their raw fallbacks and follow no pointer.
    ///
    /// # Errors
    /// When the kernel refuses, as it does for typed programs.
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

    /// What the kernel counted of each program: zero runs unless [`Options::program_stats`] or the sysctl
    /// `kernel.bpf_stats_enabled` is on.
    ///
    /// # Errors
    /// When the kernel refuses information on a program.
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

/// Before Linux 5.11 maps count against this limit; where we may not raise it, creating maps says so.
fn unlimit_locked_memory() {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    let _best_effort = setrlimit(Resource::Memlock, unlimited).is_ok();
}

/// Has the kernel count runs while the result is open; a refusal costs these figures and nothing else.
fn run_statistics() -> Option<OwnedFd> {
    let refused = |error| {
        warn!(error = %chain(&error), "runs of programs are not counted: that needs CAP_SYS_ADMIN");
    };
    enable_stats(Stats::RunTime).map_err(refused).ok()
}

/// Makes sure that programs may be loaded at all: what comes later would fail with a worse reason.
fn check_programs() -> Result<(), ProbeError> {
    let Refusal { health, reason, .. } = match is_program_supported(ProgramType::RawTracePoint) {
        Ok(true) => return Ok(()),
        Ok(false) => {
            Refusal::unsupported("this kernel does not load raw tracepoint programs (Linux 4.17 does)")
        }
        Err(error) => error.into(),
    };
    Err(ProbeError::NoPrograms { health, reason })
}

fn information(program: &Program) -> Result<ProgramInfo, ProgramError> {
    program.info()
}

/// The hooks that have a program, and its flavour.
fn attached(verdicts: &[HookVerdict]) -> impl Iterator<Item = (Hook, Flavour)> {
    let flavoured = |verdict: &HookVerdict| Some((verdict.hook, verdict.flavour?));
    verdicts.iter().filter_map(flavoured)
}
