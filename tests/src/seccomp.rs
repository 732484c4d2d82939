//! A seccomp filter that denies commands of `bpf()`, as a container's seccomp profile may.

use std::{collections::BTreeMap, env::consts::ARCH};

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Command {
    MapCreate = 0,
    ProgramLoad = 5,
    /// Query the object behind a descriptor.
    ObjectInfo = 15,
    RawTracepointOpen = 17,
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

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MapCreate => "map-create",
            Self::ProgramLoad => "program-load",
            Self::ObjectInfo => "object-info",
            Self::RawTracepointOpen => "raw-tracepoint-open",
            Self::LinkCreate => "link-create",
        }
    }

    /// The command with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.name() == name)
    }
}

/// Denies these commands permanently to this thread and to all threads and processes that it starts.
pub fn deny(commands: &[Command], with: Errno) {
    apply_filter(&program(commands, with)).expect("anyone may deny himself something");
}

/// The filter program for these commands.
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
