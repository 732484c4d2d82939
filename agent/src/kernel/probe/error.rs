//! `ProbeError`: the reasons why the agent has no kernel programs, each with a remedy. `Refused`: one program that
//! could not be attached.

use aya::{EbpfError, maps::MapError, sys::SyscallError};
use headroom_kit::log::chain;

use super::{Health, Hook, HookVerdict, verdict::Refusal};
use crate::kernel::btf::BtfError;

/// Reason why the kernel programs cannot be the source of CPU counters.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The agent was built without the toolchain for kernel programs.
    #[error("this agent was built without its kernel programs")]
    NotBuilt,
    /// A field or tracepoint that the programs need was not found.
    #[error("cannot find the kernel's field offsets")]
    Btf(#[from] BtfError),
    /// The kernel loads no program at all.
    #[error("{reason}")]
    NoPrograms {
        /// [`Health::Unsupported`] if this kernel lacks such programs, [`Health::Failed`] if it refuses them.
        health: Health,
        reason: String,
    },
    /// The maps cannot be created, or the object cannot be read.
    #[error("load the kernel programs")]
    Load(#[source] Box<EbpfError>),
    /// The object lacks a map.
    #[error("the kernel programs have no map `{name}`")]
    NoMap { name: &'static str },
    /// A map has another layout than the agent expects.
    #[error("map `{name}` does not have the expected layout")]
    Map {
        name: &'static str,
        #[source]
        source: MapError,
    },
    /// The programs' log could not be opened.
    #[error("open the log of the kernel programs")]
    Log(#[source] Box<aya_log::Error>),
    /// The kernel refused statistics of programs.
    #[error("turn on statistics of kernel programs")]
    Stats(#[source] SyscallError),
    /// The mandatory hook `sched_switch` could not be attached.
    #[error("attach to sched_switch: {}", .verdicts.last().and_then(|verdict| verdict.reason.as_deref()).unwrap_or("no reason given"))]
    Refused {
        /// Verdict on each hook; `sched_switch` last.
        verdicts: Vec<HookVerdict>,
    },
}

/// A loaded program could not be attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", .hook.tracepoint())]
pub struct Refused {
    pub hook: Hook,
    pub reason: String,
}

impl ProbeError {
    /// Error of a missing program at `sched_switch`. All other hooks count as lost, because they are detached again.
    pub(super) fn refused(verdicts: &[HookVerdict]) -> Self {
        let now = |verdict: &HookVerdict| match verdict.health {
            Health::Ok => verdict.lost("detached again, because sched_switch could not be attached"),
            Health::Unsupported | Health::Failed => verdict.clone(),
        };
        Self::Refused {
            verdicts: verdicts.iter().map(now).collect(),
        }
    }

    /// The remedy, as the end of a sentence.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NotBuilt => "run `cargo xtask setup` and build the agent again",
            Self::Btf(BtfError::Read { .. }) if self.is_unsupported() => {
                "mount /sys/kernel/btf where the agent runs, set --btf to a BTF file of this kernel, or boot a kernel that \
                 was built with CONFIG_DEBUG_INFO_BTF"
            }
            Self::Btf(BtfError::Read { .. }) => "let the agent read this file, and restart it",
            Self::Btf(_) => "please report it with the kernel's version",
            Self::NoPrograms {
                health: Health::Unsupported,
                ..
            } => "boot a newer kernel, or change the seccomp profile if it causes this error",
            Self::NoPrograms { .. } => "fix this and restart the agent",
            Self::Load(_) => {
                "free memory, allow bpf() to create maps, raise the limit on locked memory before Linux 5.11, and restart \
                 the agent"
            }
            Self::NoMap { .. } | Self::Map { .. } | Self::Log(_) | Self::Stats(_) => {
                "restart the agent, and report it with the kernel's version if it recurs"
            }
            Self::Refused { verdicts } => match verdicts.last() {
                Some(HookVerdict {
                    verifier_log: Some(_),
                    ..
                }) => "this node uses procfs until this is fixed",
                Some(HookVerdict {
                    health: Health::Unsupported,
                    ..
                }) => "boot a kernel that has it",
                Some(_) | None => "fix this and restart the agent",
            },
        }
    }

    /// Returns true if this kernel lacks a required feature.
    fn is_unsupported(&self) -> bool {
        match self {
            Self::Btf(error) => error.is_unsupported(),
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

    /// Verdict on each hook. If loading failed before the first hook, all have the same reason: [`Health::Unsupported`] if this
    /// kernel lacks a required feature, [`Health::Failed`] if it has the feature and refused it.
    pub fn verdicts(&self) -> Vec<HookVerdict> {
        if let Self::Refused { verdicts } = self {
            return verdicts.clone();
        }
        let refusal = Refusal {
            health: if self.is_unsupported() {
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
            reason: "no programs".to_owned(),
        }
    }

    #[test]
    fn an_error_before_the_first_hook_is_the_reason_of_every_hook() {
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
            (
                no_programs(Health::Unsupported),
                Health::Unsupported,
                "no programs",
            ),
            (no_programs(Health::Failed), Health::Failed, "no programs"),
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
