//! Why there are no kernel programs.

use aya::{EbpfError, maps::MapError, sys::SyscallError};

use super::{Health, Hook, Verdict};
use crate::btf::BtfError;

/// Why there is no kernel source.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The agent was built without the toolchain for kernel programs.
    #[error("this agent was built without its kernel programs; run `cargo xtask setup` and build it again")]
    NotBuilt,
    /// An offset or tracepoint our programs need could not be found.
    #[error("cannot tell where the kernel keeps what we read")]
    Btf(#[from] BtfError),
    /// No program may be loaded at all.
    #[error("{reason}")]
    NoPrograms {
        /// Why, and what to do.
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
    #[error("map `{name}` is not what the agent expects")]
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
        verdicts: Vec<Verdict>,
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
    pub(super) fn refused(verdicts: &[Verdict]) -> Self {
        let now = |verdict: &Verdict| match verdict.health {
            Health::Ok => verdict.lost("detached again: nothing is counted without sched_switch"),
            Health::Unsupported | Health::Failed => verdict.clone(),
        };
        Self::Refused {
            verdicts: verdicts.iter().map(now).collect(),
        }
    }

    /// What became of each hook, as far as loading got; the whole cause is the error's own text.
    pub fn verdicts(&self) -> &[Verdict] {
        match self {
            Self::Refused { verdicts } => verdicts,
            Self::NotBuilt
            | Self::Btf(_)
            | Self::NoPrograms { .. }
            | Self::Load(_)
            | Self::NoMap { .. }
            | Self::Map { .. }
            | Self::Log(_)
            | Self::Stats(_) => &[],
        }
    }
}
