//! A seccomp filter that denies commands of `bpf()`, as a container's seccomp profile may.

use std::{collections::BTreeMap, env::consts::ARCH};

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// A command of `bpf()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Command {
    /// Create a map.
    MapCreate = 0,
    /// Load a program.
    ProgramLoad = 5,
    /// Ask what a descriptor leads to.
    ObjectInfo = 15,
    /// Attach to a tracepoint.
    RawTracepointOpen = 17,
    /// Attach to anything else.
    LinkCreate = 28,
}

impl Command {
    const ALL: [Self; 5] = [
        Self::MapCreate,
        Self::ProgramLoad,
        Self::ObjectInfo,
        Self::RawTracepointOpen,
        Self::LinkCreate,
    ];

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MapCreate => "map-create",
            Self::ProgramLoad => "program-load",
            Self::ObjectInfo => "object-info",
            Self::RawTracepointOpen => "raw-tracepoint-open",
            Self::LinkCreate => "link-create",
        }
    }

    /// The command of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.name() == name)
    }
}

/// Refuses these commands to this thread and to all that it starts, threads and processes, for good.
pub fn deny(commands: &[Command], with: Errno) {
    apply_filter(&program(commands, with)).expect("anyone may deny himself something");
}

/// What the kernel asks about each call from then on.
pub fn program(commands: &[Command], with: Errno) -> BpfProgram {
    let rule = |command: &Command| {
        let is_it = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *command as u64);
        SeccompRule::new(vec![is_it.expect("a condition")]).expect("a rule")
    };
    let rules = BTreeMap::from([(libc::SYS_bpf, commands.iter().map(rule).collect())]);
    let refused = SeccompAction::Errno(with.raw_os_error().unsigned_abs());
    let arch = ARCH.try_into().expect("an architecture that seccomp knows");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).expect("a filter");
    filter.try_into().expect("a small program")
}
