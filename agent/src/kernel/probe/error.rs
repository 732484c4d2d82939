//! `ProbeError`: the reasons why the agent has no kernel programs, each with a remedy. `Refused`: one program that
//! could not be attached.

use aya::{EbpfError, maps::MapError, sys::SyscallError};
use headroom_kit::log::chain;

use super::{Health, Hook, HookVerdict, verdict::Refusal};
use crate::kernel::btf::BtfError;

/// Why there is no kernel source.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The agent was built without the toolchain for kernel programs.
    #[error("this agent was built without its kernel programs")]
    NotBuilt,
    /// An offset or tracepoint our programs need could not be found.
    #[error("cannot find the kernel's field offsets")]
    Btf(#[from] BtfError),
    /// No program may be loaded at all.
    #[error("{reason}")]
    NoPrograms {
        /// Whether this kernel does not know such programs, or refuses ours.
        health: Health,
        /// Why.
        reason: String,
    },
    /// Maps could not be created, or the object not be read.
    #[error("load the kernel programs")]
    Load(#[source] Box<EbpfError>),
    /// The object lacks a map.
    #[error("the kernel programs have no map `{name}`")]
    NoMap {
        /// The map.
        name: &'static str,
    },
    /// A map is not laid out as the agent expects.
    #[error("map `{name}` does not have the expected layout")]
    Map {
        /// The map.
        name: &'static str,
        /// What is different.
        #[source]
        source: MapError,
    },
    /// The programs' log could not be opened.
    #[error("open the log of the kernel programs")]
    Log(#[source] Box<aya_log::Error>),
    /// Statistics of programs were asked for and refused.
    #[error("turn on statistics of kernel programs")]
    Stats(#[source] SyscallError),
    /// `sched_switch`, without which the others are of no use, could not be attached.
    #[error("attach to sched_switch: {}", .verdicts.last().and_then(|verdict| verdict.reason.as_deref()).unwrap_or("no reason given"))]
    Refused {
        /// What became of each hook; `sched_switch` last.
        verdicts: Vec<HookVerdict>,
    },
}

/// A program that is loaded could not be attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", .hook.tracepoint())]
pub struct Refused {
    /// Where.
    pub hook: Hook,
    /// Why.
    pub reason: String,
}

impl ProbeError {
    /// There is no program at `sched_switch`, so the others are detached again.
    pub(super) fn refused(verdicts: &[HookVerdict]) -> Self {
        let now = |verdict: &HookVerdict| match verdict.health {
            Health::Ok => verdict.lost("detached again: nothing is counted without sched_switch"),
            Health::Unsupported | Health::Failed => verdict.clone(),
        };
        Self::Refused {
            verdicts: verdicts.iter().map(now).collect(),
        }
    }

    /// What to do about it, as the end of a sentence.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NotBuilt => "run `cargo xtask setup` and build the agent again",
            Self::Btf(BtfError::Read { .. }) if self.is_lack() => {
                "mount /sys/kernel/btf where the agent runs, tell it by --btf where else this kernel's BTF is, or boot a \
                 kernel that was built to have it"
            }
            Self::Btf(BtfError::Read { .. }) => "let the agent read this file, and restart it",
            Self::Btf(_) => "please report it with the kernel's version: nothing is guessed",
            Self::NoPrograms {
                health: Health::Unsupported,
                ..
            } => "boot a newer kernel, or change the seccomp profile if that is what answers so",
            Self::NoPrograms { .. } => "see to that and restart the agent",
            Self::Load(_) => {
                "free memory, allow bpf() to create maps and before Linux 5.11 raise the limit on locked memory, and \
                 restart the agent"
            }
            Self::NoMap { .. } | Self::Map { .. } | Self::Log(_) | Self::Stats(_) => {
                "restart the agent, and report it with the kernel's version if it comes again"
            }
            Self::Refused { verdicts } => match verdicts.last() {
                Some(HookVerdict {
                    verifier_log: Some(_),
                    ..
                }) => "until then this node stays as it is",
                Some(HookVerdict {
                    health: Health::Unsupported,
                    ..
                }) => "boot a kernel that has it",
                Some(_) | None => "see to that and restart the agent",
            },
        }
    }

    /// Does this kernel not have what is needed?
    fn is_lack(&self) -> bool {
        match self {
            Self::Btf(error) => error.is_lack(),
            Self::NoPrograms { health, .. } => *health == Health::Unsupported,
            Self::NotBuilt
            | Self::Load(_)
            | Self::NoMap { .. }
            | Self::Map { .. }
            | Self::Log(_)
            | Self::Stats(_)
            | Self::Refused { .. } => false,
        }
    }

    /// What became of each hook. Where loading ended before any was tried, each tells why: [`Health::Unsupported`] where
    /// this kernel does not have what is needed, [`Health::Failed`] where it is there and was refused.
    pub fn verdicts(&self) -> Vec<HookVerdict> {
        if let Self::Refused { verdicts } = self {
            return verdicts.clone();
        }
        let refusal = Refusal {
            health: if self.is_lack() {
                Health::Unsupported
            } else {
                Health::Failed
            },
            reason: chain(self).to_string(),
            verifier_log: None,
        };
        let untried = |hook| HookVerdict::refused(hook, refusal.clone());
        Hook::ALL.map(untried).into()
    }
}

#[cfg(test)]
mod tests {
    use std::{io, path::PathBuf};

    use super::*;

    fn read(kind: io::ErrorKind) -> ProbeError {
        ProbeError::Btf(BtfError::Read {
            path: PathBuf::from("/a/btf"),
            source: kind.into(),
        })
    }

    fn no_programs(health: Health) -> ProbeError {
        ProbeError::NoPrograms {
            health,
            reason: "so it is".to_owned(),
        }
    }

    #[test]
    fn what_ends_loading_early_is_told_of_every_hook() {
        let no_field = BtfError::NoField {
            structure: "task_struct".to_owned(),
            fields: "pid".to_owned(),
        };
        for (error, health, reason) in [
            (
                read(io::ErrorKind::NotFound),
                Health::Unsupported,
                "CONFIG_DEBUG_INFO_BTF",
            ),
            (read(io::ErrorKind::PermissionDenied), Health::Failed, "/a/btf"),
            (
                ProbeError::Btf(no_field),
                Health::Unsupported,
                "has no field `pid`",
            ),
            (no_programs(Health::Unsupported), Health::Unsupported, "so it is"),
            (no_programs(Health::Failed), Health::Failed, "so it is"),
            (ProbeError::NoMap { name: "CPU" }, Health::Failed, "no map `CPU`"),
            (ProbeError::NotBuilt, Health::Failed, "built without"),
        ] {
            let verdicts = error.verdicts();
            let hooks: Vec<_> = verdicts.iter().map(|verdict| verdict.hook).collect();
            assert_eq!(hooks, Hook::ALL);
            for verdict in verdicts {
                assert_eq!((verdict.health, verdict.flavour), (health, None), "{error:?}");
                assert!(verdict.reason.unwrap().contains(reason), "{error:?}");
            }
        }
    }
}
