//! `HookVerdict` is the result of attaching one hook: attached and how, not offered by this kernel, or refused and why.

use std::io;

use aya::{BtfError, programs::ProgramError, sys::SyscallError};
use headroom_kit::log::chain;
use rustix::io::Errno;
use serde::Serialize;

use crate::kernel::hooks::{Flavour, Hook};

/// Bytes of the verifier's log that a verdict keeps: the end of the log contains the refused instruction.
const LOG_TAIL: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Its program is attached.
    Ok,
    /// This kernel does not have the tracepoint, or does not support such programs.
    Unsupported,
    /// The kernel has the tracepoint and refused the program, or the program is attached no longer.
    Failed,
}

/// Result of attaching one hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookVerdict {
    pub hook: Hook,
    pub health: Health,
    /// Type of the attached program; `None` unless [`Health::Ok`].
    pub flavour: Option<Flavour>,
    /// Reason for a health other than [`Health::Ok`], or for a flavour other than [`Flavour::Typed`].
    pub reason: Option<String>,
    /// End of the verifier's log of the refused program, at most 4 KiB.
    pub verifier_log: Option<String>,
}

/// Reason why one program could not be loaded or attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) health: Health,
    pub(super) reason: String,
    pub(super) verifier_log: Option<String>,
}

impl Health {
    /// Name in `/status`, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unsupported => "unsupported",
            Self::Failed => "failed",
        }
    }
}

impl HookVerdict {
    pub(super) fn attached(hook: Hook, flavour: Flavour, typed: Option<Refusal>) -> Self {
        let (reason, verifier_log) = typed.map_or((None, None), |refusal| {
            (Some(refusal.reason), refusal.verifier_log)
        });
        Self {
            hook,
            health: Health::Ok,
            flavour: Some(flavour),
            reason,
            verifier_log,
        }
    }

    pub(super) fn refused(hook: Hook, refusal: Refusal) -> Self {
        let Refusal {
            health,
            reason,
            verifier_log,
        } = refusal;
        Self {
            hook,
            health,
            flavour: None,
            reason: Some(reason),
            verifier_log,
        }
    }

    /// Verdict on the same hook after its program was detached, for this reason.
    pub fn lost(&self, reason: &str) -> Self {
        Self {
            hook: self.hook,
            health: Health::Failed,
            flavour: None,
            reason: Some(reason.to_owned()),
            verifier_log: self.verifier_log.clone(),
        }
    }
}

impl Refusal {
    /// Returns true if the raw fallback would read offsets that the verifier refused in the typed program. The verifier writes
    /// a log whenever it examines a program.
    pub(super) fn blocks_raw_fallback(&self, hook: Hook) -> bool {
        self.verifier_log.is_some() && hook.reads_tasks()
    }

    /// Adds to the reason that the fallback is not used, and the remedy.
    pub(super) fn without_fallback(self) -> Self {
        let reason = format!(
            "{}; the raw fallback is not used, because it would read the same offsets unchecked: please report the \
             verifier's log from /status or `kubectl headroom agent status`",
            self.reason
        );
        Self { reason, ..self }
    }

    pub(super) fn unsupported(reason: impl Into<String>) -> Self {
        Self {
            health: Health::Unsupported,
            reason: reason.into(),
            verifier_log: None,
        }
    }

    fn failed(reason: String) -> Self {
        Self {
            health: Health::Failed,
            reason,
            verifier_log: None,
        }
    }
}

impl From<ProgramError> for Refusal {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "aya's error covers all program types; ours can meet few of them"
    )]
    fn from(error: ProgramError) -> Self {
        match error {
            ProgramError::Btf(BtfError::UnknownBtfTypeName { type_name }) => {
                Self::unsupported(format!("this kernel has no `{type_name}`"))
            }
            ProgramError::LoadError {
                io_error,
                verifier_log,
            } => {
                let log = verifier_log.to_string();
                // With a log the verifier has examined the program and refused it. Without a log the kernel does not
                // support such programs.
                let mut refusal = refusal_of(&io_error, "load", !log.trim().is_empty());
                refusal.verifier_log = tail(log.trim());
                refusal
            }
            ProgramError::SyscallError(SyscallError { call, io_error }) => refusal_of(&io_error, call, false),
            other => Self::failed(chain(&other).to_string()),
        }
    }
}

fn refusal_of(error: &io::Error, step: &str, was_verified: bool) -> Refusal {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) if !was_verified => Refusal::failed(format!(
            "{step}: not permitted; grant CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8), and remove any \
             lockdown, seccomp or LSM rule against bpf()"
        )),
        Some(Errno::INVAL | Errno::NOENT | Errno::NOSYS | Errno::NOTSUP | Errno::OPNOTSUPP)
            if !was_verified =>
        {
            Refusal::unsupported(format!("{step}: {error}"))
        }
        _ if was_verified => Refusal::failed(format!("{step}: refused by the verifier: {error}")),
        _ => Refusal::failed(format!("{step}: {error}")),
    }
}

/// The last whole lines of a log, at most [`LOG_TAIL`] bytes. A single longer line is cut at a character.
fn tail(log: &str) -> Option<String> {
    if log.is_empty() {
        return None;
    }
    let mut start = log.len().saturating_sub(LOG_TAIL);
    while !log.is_char_boundary(start) {
        start += 1;
    }
    let end = log.get(start..)?;
    let end = if start == 0 {
        end
    } else {
        end.split_once('\n').map_or(end, |(_cut, whole)| whole)
    };
    Some(end.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(errno: Errno) -> io::Error {
        io::Error::from(errno)
    }

    #[test]
    fn missing_capability_is_a_failure_that_names_it() {
        let refusal = refusal_of(&system(Errno::PERM), "load", false);
        assert_eq!(refusal.health, Health::Failed);
        assert!(
            refusal.reason.contains("CAP_BPF and CAP_PERFMON"),
            "{}",
            refusal.reason
        );
    }

    #[test]
    fn kernel_without_such_programs_is_unsupported_and_a_verifier_refusal_is_a_failure() {
        assert_eq!(
            refusal_of(&system(Errno::INVAL), "load", false).health,
            Health::Unsupported
        );
        let refused = refusal_of(&system(Errno::INVAL), "load", true);
        assert_eq!(refused.health, Health::Failed);
        assert!(
            refused.reason.contains("refused by the verifier"),
            "{}",
            refused.reason
        );
        let refused = refusal_of(&system(Errno::ACCESS), "load", true);
        assert!(
            refused.reason.contains("refused by the verifier"),
            "{}",
            refused.reason
        );
    }

    #[test]
    fn raw_fallback_is_blocked_only_if_the_verifier_refused_a_program_that_reads_tasks() {
        let refused = Refusal {
            verifier_log: Some("cannot access ptr member stack".to_owned()),
            ..refusal_of(&system(Errno::ACCESS), "load", true)
        };
        let unknown = refusal_of(&system(Errno::INVAL), "load", false);
        for hook in Hook::ALL {
            assert_eq!(refused.blocks_raw_fallback(hook), hook.reads_tasks(), "{hook:?}");
            assert!(!unknown.blocks_raw_fallback(hook), "{hook:?}");
        }
        let reason = refused.without_fallback().reason;
        assert!(
            reason.contains("refused by the verifier") && reason.contains("unchecked"),
            "{reason}"
        );
    }

    #[test]
    fn a_hook_that_was_lost_has_no_flavour_and_a_reason() {
        let was = HookVerdict::attached(Hook::SchedWakeup, Flavour::Typed, None);
        let lost = was.lost("no context switch was counted");
        assert_eq!(
            (lost.hook, lost.health, lost.flavour, lost.reason.as_deref()),
            (
                Hook::SchedWakeup,
                Health::Failed,
                None,
                Some("no context switch was counted")
            )
        );
    }

    #[test]
    fn verifier_log_keeps_its_last_whole_lines() {
        let lines: Vec<String> = (0..2_000).map(|line| format!("line {line} ü")).collect();
        let log = lines.join("\n");
        let end = tail(&log).unwrap();
        assert!(end.len() <= LOG_TAIL && end.len() > LOG_TAIL - 20);
        assert!(end.starts_with("line ") && end.ends_with("line 1999 ü"), "{end}");
        assert_eq!(tail("short").as_deref(), Some("short"));
        assert_eq!(tail(""), None);
    }

    #[test]
    fn every_hook_has_a_program_of_each_flavour() {
        let mut names: Vec<&str> = Hook::ALL
            .iter()
            .flat_map(|hook| [hook.program(Flavour::Typed), hook.program(Flavour::Raw)])
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2 * Hook::ALL.len());
    }
}
