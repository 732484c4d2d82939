//! Reason codes of an estimate: for the target, the published ratio and the brakes.

use std::fmt;

/// Reason in the estimate of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No webhook replica has sent the node's data.
    NoDirective,
    /// The Node object's capacity is that of another machine.
    CapacityMismatch,
    /// No frame of the history is valid.
    NoHistory,
    /// Bad outcomes of earlier ratios keep the node from being amplified.
    MarginLatched,
    /// Measured use leaves slack above raw allocatable.
    Slack,
    /// Frames of the history are missing; slack is scaled by the valid share.
    Coverage,
    /// Measured use leaves no slack.
    NoSlack,
    /// The policy's maximum limited the target.
    ClampedMax,
    /// The policy's minimum raised the target.
    ClampedMin,
    /// Neither kernel programs nor pressure could show that the node is overloaded.
    NoBrake,
    /// The published ratio is below the target.
    Rising,
    /// CPU brake: windows without an idle CPU.
    CpuNoIdle,
    /// CPU brake: many windows without an idle CPU, and long waits.
    CpuContended,
    /// CPU brake: most windows without an idle CPU, and the longest waits.
    CpuSaturated,
    /// CPU brake: CPU pressure on busy CPUs.
    CpuPsi,
    /// Memory brake: a global OOM kill on the node.
    Oom,
    /// Memory brake: an OOM kill at kubepods' memory limit.
    KubepodsOom,
    /// Memory brake: kubepods reached its memory limit.
    KubepodsLimit,
    /// Memory brake: memory pressure (PSI), line `some`.
    MemoryPsiSome,
    /// Memory brake: memory pressure (PSI), line `full`.
    MemoryPsiFull,
    /// Memory brake: time in global direct reclaim.
    DirectReclaim,
    /// Memory brake: refaults of reclaimed pages.
    Refaults,
    /// Memory brake: pages swapped out per second.
    SwapOut,
    /// Memory brake: little memory is available above the kubelet's hard eviction threshold.
    MemoryAvailable,
    /// Memory brake: the Node's condition `MemoryPressure` is true.
    MemoryPressure,
    /// A brake from before a restart of the agent.
    BrakeResumed,
}

/// Part of an estimate that a reason explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The ratio towards which the published ratio moves.
    Target,
    /// The published ratio, compared with the target.
    Publication,
    /// Limits that overload puts on the published ratio.
    Brake,
}

impl Stage {
    /// All stages, in the order in which a ratio passes them.
    pub const ALL: [Self; 3] = [Self::Target, Self::Publication, Self::Brake];

    /// Word in headings, such as `target`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Publication => "publication",
            Self::Brake => "brake",
        }
    }

    /// Short description for `kubectl headroom reasons`.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Target => "the ratio towards which the published ratio moves",
            Self::Publication => "the published ratio: down at once, up in small steps",
            Self::Brake => {
                "L1 blocks rises, L2 halves the free part of the amplification in each period, L3 ends amplification; they stay \
                 5, 10 and 30 minutes after the last cause, and 60 after an OOM kill"
            }
        }
    }
}

impl Reason {
    /// All reasons, grouped by stage.
    pub const ALL: [Self; 26] = [
        Self::NoDirective,
        Self::CapacityMismatch,
        Self::NoHistory,
        Self::MarginLatched,
        Self::Slack,
        Self::Coverage,
        Self::NoSlack,
        Self::ClampedMax,
        Self::ClampedMin,
        Self::NoBrake,
        Self::Rising,
        Self::CpuNoIdle,
        Self::CpuContended,
        Self::CpuSaturated,
        Self::CpuPsi,
        Self::Oom,
        Self::KubepodsOom,
        Self::KubepodsLimit,
        Self::MemoryPsiSome,
        Self::MemoryPsiFull,
        Self::DirectReclaim,
        Self::Refaults,
        Self::SwapOut,
        Self::MemoryAvailable,
        Self::MemoryPressure,
        Self::BrakeResumed,
    ];

    /// Code in hints, annotations and `explain`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::NoDirective => "no-directive",
            Self::CapacityMismatch => "capacity-mismatch",
            Self::NoHistory => "no-history",
            Self::MarginLatched => "margin-latched",
            Self::Slack => "slack",
            Self::Coverage => "coverage",
            Self::NoSlack => "no-slack",
            Self::ClampedMax => "clamped-max",
            Self::ClampedMin => "clamped-min",
            Self::NoBrake => "no-brake",
            Self::Rising => "rising",
            Self::CpuNoIdle => "cpu-no-idle",
            Self::CpuContended => "cpu-contended",
            Self::CpuSaturated => "cpu-saturated",
            Self::CpuPsi => "cpu-psi",
            Self::Oom => "oom",
            Self::KubepodsOom => "kubepods-oom",
            Self::KubepodsLimit => "kubepods-limit",
            Self::MemoryPsiSome => "memory-psi-some",
            Self::MemoryPsiFull => "memory-psi-full",
            Self::DirectReclaim => "direct-reclaim",
            Self::Refaults => "refaults",
            Self::SwapOut => "swap-out",
            Self::MemoryAvailable => "memory-available",
            Self::MemoryPressure => "memory-pressure",
            Self::BrakeResumed => "brake-resumed",
        }
    }

    /// Reason of that code; `None` for codes of newer agents.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// Short description for users. The thresholds are those of docs/estimator.md#brakes.
    pub const fn about(self) -> &'static str {
        match self {
            Self::NoDirective => "no webhook replica has sent the node's data yet: 1.00",
            Self::CapacityMismatch => {
                "the capacities of the machine and of its Node object differ by more than 2 %: 1.00 until they agree"
            }
            Self::NoHistory => "the history has no valid frame yet: 1.00",
            Self::MarginLatched => {
                "bad outcomes at earlier ratios raised M to 100 %: slack does not count until M falls to 50 %"
            }
            Self::Slack => "measured use leaves slack above raw",
            Self::Coverage => "the history is incomplete: slack is scaled by the share of valid frames",
            Self::NoSlack => "measured use leaves no slack above raw",
            Self::ClampedMax => "the computed ratio is above the policy's maximum",
            Self::ClampedMin => "the computed ratio is below the policy's minimum",
            Self::NoBrake => {
                "neither the kernel programs nor pressure (PSI) can be read, so no brake would act: at most 1.00"
            }
            Self::Rising => {
                "the published ratio is below the target: it rises in small steps, and only without a brake"
            }
            Self::CpuNoIdle => "no CPU was idle in at least 2 % of all 8.39 ms windows (L1)",
            Self::CpuContended => {
                "no CPU was idle in at least 10 % of all 8.39 ms windows, and run-queue p99 was at least 10 ms, or, if waits are \
                 not measured, tasks waited at least 25 % of the time (L2); if neither is measured, L1, and L2 from the second \
                 period on"
            }
            Self::CpuSaturated => {
                "no CPU was idle in at least 30 % of all 8.39 ms windows, and run-queue p99 was at least 25 ms, or, if waits are \
                 not measured, tasks waited at least 50 % of the time (L2, and L3 from the third period on); if neither is \
                 measured, L1, L2 and L3 in the first, second and third period"
            }
            Self::CpuPsi => {
                "tasks waited for a CPU at least 10, 25 or 50 % of the time while at least 85, 90 or 95 % of CPUs were busy \
                 (L1, L2, or L3 from the third period on)"
            }
            Self::Oom => "the node ran out of memory and the kernel killed a process (L3)",
            Self::KubepodsOom => {
                "all pods together exceeded their memory limit and the kernel killed a process (L3)"
            }
            Self::KubepodsLimit => "all pods together reached their memory limit (L1)",
            Self::MemoryPsiSome => "some tasks stalled on memory at least 1 or 5 % of the time (L1 or L2)",
            Self::MemoryPsiFull => "all tasks stalled on memory at least 1 or 5 % of the time (L2 or L3)",
            Self::DirectReclaim => {
                "tasks spent time in global direct reclaim: any, at least 100 ms or at least 1 s of a period (L1, L2 or L3)"
            }
            Self::Refaults => "at least 50 or 200 MB/s of reclaimed pages were read back (L1 or L2)",
            Self::SwapOut => "at least 10 or 100 MB/s were swapped out (L1 or L2)",
            Self::MemoryAvailable => {
                "less than 5, 3 or 1 % of raw is available above the kubelet's hard eviction threshold (L1, L2 or L3)"
            }
            Self::MemoryPressure => "the Node's condition MemoryPressure is true (L3)",
            Self::BrakeResumed => "a brake from before the agent's restart is still active",
        }
    }

    /// Stage that the reason explains.
    pub const fn stage(self) -> Stage {
        match self {
            Self::NoDirective
            | Self::CapacityMismatch
            | Self::NoHistory
            | Self::MarginLatched
            | Self::Slack
            | Self::Coverage
            | Self::NoSlack
            | Self::ClampedMax
            | Self::ClampedMin
            | Self::NoBrake => Stage::Target,
            Self::Rising => Stage::Publication,
            Self::CpuNoIdle
            | Self::CpuContended
            | Self::CpuSaturated
            | Self::CpuPsi
            | Self::Oom
            | Self::KubepodsOom
            | Self::KubepodsLimit
            | Self::MemoryPsiSome
            | Self::MemoryPsiFull
            | Self::DirectReclaim
            | Self::Refaults
            | Self::SwapOut
            | Self::MemoryAvailable
            | Self::MemoryPressure
            | Self::BrakeResumed => Stage::Brake,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_stages_in_order() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), Some(reason));
        }
        assert_eq!(Reason::from_code("x"), None);
        let stages = Reason::ALL.map(Reason::stage);
        let at = |stage| Stage::ALL.iter().position(|known| *known == stage);
        assert!(stages.iter().map(|stage| at(*stage)).is_sorted());
    }
}
