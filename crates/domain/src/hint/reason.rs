//! The reason codes of an estimate, for the target, the published ratio and the brake.

use std::fmt;

/// A reason in an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No server told about the node.
    NoDirective,
    /// The Node object is about another machine.
    CapacityMismatch,
    /// No frame is valid.
    NoHistory,
    /// Outcomes of earlier ratios keep the node from being amplified.
    MarginLatched,
    /// There is slack.
    Slack,
    /// Frames of the history are missing, and slack counts by the share that is there.
    Coverage,
    /// There is no slack.
    NoSlack,
    /// The upper bound held the target down.
    ClampedMax,
    /// The lower bound held the target up.
    ClampedMin,
    /// Neither kernel programs nor pressure would tell that the node is short.
    NoBrake,
    /// The published ratio is below the target.
    Rising,
    /// CPU brake: windows without an idle CPU.
    CpuNoIdle,
    /// CPU brake: many such windows, and long waits.
    CpuContended,
    /// CPU brake: most of all.
    CpuSaturated,
    /// CPU brake by pressure and mean use.
    CpuPsi,
    /// Memory brake: an OOM kill of the node.
    Oom,
    /// Memory brake: an OOM kill at kubepods' own limit.
    KubepodsOom,
    /// Memory brake: kubepods met its own limit.
    KubepodsLimit,
    /// Memory brake: pressure, some.
    MemoryPsiSome,
    /// Memory brake: pressure, full.
    MemoryPsiFull,
    /// Memory brake: time in global direct reclaim.
    DirectReclaim,
    /// Memory brake: pages that came back after reclaim.
    Refaults,
    /// Memory brake: pages swapped out.
    SwapOut,
    /// Memory brake: little is left above the kubelet's hard eviction threshold.
    MemoryAvailable,
    /// Memory brake: the Node's condition `MemoryPressure`.
    MemoryPressure,
    /// A brake of before a restart of the agent.
    BrakeResumed,
}

/// What a reason is a reason of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The target.
    Target,
    /// How the published ratio stands to the target.
    Publication,
    /// A brake.
    Brake,
}

impl Stage {
    /// All stages, in the order in which a ratio passes them.
    pub const ALL: [Self; 3] = [Self::Target, Self::Publication, Self::Brake];

    /// The word in headings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Publication => "publication",
            Self::Brake => "brake",
        }
    }

    /// What it says, in a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Target => "the ratio that the published one moves towards",
            Self::Publication => "the published ratio: down at once, up by small steps",
            Self::Brake => {
                "L1 keeps a ratio from rising, L2 halves what is free, L3 ends amplification; for 5, 10 or 30 minutes after \
                 the last cause, and 60 after an OOM kill"
            }
        }
    }
}

impl Reason {
    /// All reasons, by stage.
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

    /// The code in hints, annotations and `explain`.
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

    /// The reason of that code.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// What it means, in a few words, for people. The thresholds are those of docs/estimator.md#brakes.
    pub const fn about(self) -> &'static str {
        match self {
            Self::NoDirective => "no hint server has told about the node yet: 1.00",
            Self::CapacityMismatch => {
                "the machine and its Node object differ in capacity by more than 2 %: 1.00 until they agree"
            }
            Self::NoHistory => "no frame of the history is valid yet: 1.00",
            Self::MarginLatched => {
                "too much went wrong at earlier ratios, M reached 100 %: no slack counts until M is down at 50 %"
            }
            Self::Slack => "measured use leaves room above raw",
            Self::Coverage => "the history is not whole: slack counts by the share of valid frames",
            Self::NoSlack => "measured use leaves no room above raw",
            Self::ClampedMax => "the numbers want more than the highest ratio allowed",
            Self::ClampedMin => "the numbers want less than the lowest ratio allowed",
            Self::NoBrake => {
                "neither the kernel programs nor pressure (PSI) can be read, so nothing would brake: 1.00 at most"
            }
            Self::Rising => "published is below the target: it rises by small steps, and under no brake",
            Self::CpuNoIdle => "in 2 % of all 8.39 ms windows or more no CPU was idle (L1)",
            Self::CpuContended => {
                "in 10 % of all 8.39 ms windows or more no CPU was idle, and run-queue p99 was 10 ms or more (L2); where waits \
                 are not measured, tasks waited 25 % of the time, or nobody knows (L1, L2 from the second period on)"
            }
            Self::CpuSaturated => {
                "in 30 % of all 8.39 ms windows or more no CPU was idle, and run-queue p99 was 25 ms or more (L2, L3 from the \
                 third period on); where waits are not measured, tasks waited 50 % of the time, or nobody knows (L1, L2, L3)"
            }
            Self::CpuPsi => {
                "tasks waited for a CPU 10, 25 or 50 % of the time while 85, 90 or 95 % were busy (L1, L2 or L3)"
            }
            Self::Oom => "the machine ran out of memory and a process was killed (L3)",
            Self::KubepodsOom => "all pods together ran out of memory and a process was killed (L3)",
            Self::KubepodsLimit => "all pods together met their memory limit (L1)",
            Self::MemoryPsiSome => "some tasks waited for memory 1 or 5 % of the time (L1 or L2)",
            Self::MemoryPsiFull => "all tasks waited for memory 1 or 5 % of the time (L2 or L3)",
            Self::DirectReclaim => {
                "tasks had to free memory of the machine themselves: at all, for 100 ms or for 1 s of a period (L1, L2 or L3)"
            }
            Self::Refaults => "50 or 200 MB of pages a second came back that had been reclaimed (L1 or L2)",
            Self::SwapOut => "10 or 100 MB a second were swapped out (L1 or L2)",
            Self::MemoryAvailable => {
                "less than 5, 3 or 1 % of raw is available above the kubelet's hard eviction threshold (L1, L2 or L3)"
            }
            Self::MemoryPressure => "the kubelet says that the node is short of memory (L3)",
            Self::BrakeResumed => "a brake of before the agent was started again",
        }
    }

    /// What it is a reason of.
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
    fn codes_lead_back_and_stages_come_in_order() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), Some(reason));
        }
        assert_eq!(Reason::from_code("x"), None);
        let stages = Reason::ALL.map(Reason::stage);
        let at = |stage| Stage::ALL.iter().position(|known| *known == stage);
        assert!(stages.iter().map(|stage| at(*stage)).is_sorted());
    }
}
