//! Durations and counts of the estimator in two profiles: production, and compressed for demonstrations.

use std::{fmt, time::Duration};

/// Seconds in a production frame: short compared with the hours in which load changes, long compared with the seconds
/// that a kubelet needs to write a Node.
pub const FRAME_SECONDS: u32 = 300;
/// Production frames in an hour.
pub const FRAMES_AN_HOUR: u32 = 3600 / FRAME_SECONDS;
/// Production frames in a day, which is the length of a node's history.
pub const FRAMES_A_DAY: u32 = 24 * FRAMES_AN_HOUR;

/// Largest rise of a published ratio per frame, in cents.
pub const STEP: u32 = 5;

/// Set of durations and counts that the estimator uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// Frames of five minutes, a day of history.
    #[default]
    Production,
    /// Frames of one second, twenty of them; for demonstrations only. See docs/estimator.md#timings.
    Demo,
}

impl Profile {
    /// Both profiles, with production first.
    pub const ALL: [Self; 2] = [Self::Production, Self::Demo];

    /// Word in configuration, hints and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Demo => "demo",
        }
    }

    /// Profile of that name; case-sensitive.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Durations and counts of the profile.
    pub const fn timing(self) -> Timing {
        match self {
            Self::Production => Timing {
                profile: self,
                second: Duration::from_secs(1),
                seconds_per_frame: FRAME_SECONDS,
                valid_seconds: 240,
                ring_frames: FRAMES_A_DAY,
                trust_from: 24,
                trust_full: FRAMES_A_DAY,
                succession_frames: 600 / FRAME_SECONDS,
                up_after: 3,
                dead_band: 2,
                climb_frames: 6,
                peak_decay: 2909,
                memory_sample: Duration::from_secs(5),
                brake_period: Duration::from_secs(10),
                brake_release: [
                    Duration::from_secs(300),
                    Duration::from_secs(600),
                    Duration::from_secs(1800),
                ],
                brake_release_oom: Duration::from_secs(3600),
                decision_frames: Some(FRAMES_AN_HOUR),
                report_every: Duration::from_secs(15),
            },
            Self::Demo => Timing {
                profile: self,
                second: Duration::from_millis(250),
                seconds_per_frame: 4,
                valid_seconds: 3,
                ring_frames: 20,
                trust_from: 2,
                trust_full: 20,
                succession_frames: 20,
                up_after: 3,
                dead_band: 5,
                climb_frames: 6,
                peak_decay: 202,
                memory_sample: Duration::from_millis(250),
                brake_period: Duration::from_secs(1),
                brake_release: [
                    Duration::from_secs(2),
                    Duration::from_secs(4),
                    Duration::from_secs(6),
                ],
                brake_release_oom: Duration::from_secs(12),
                decision_frames: None,
                report_every: Duration::from_secs(2),
            },
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Conditions for a rise of the ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rise {
    /// Consecutive frame ends that must agree.
    pub after: u32,
    /// Least difference between target and published ratio, in cents.
    pub dead_band: u32,
}

/// Durations and counts of the estimator. See docs/estimator.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Profile that these values belong to.
    pub profile: Profile,
    /// Duration that counts as one second of demand.
    pub second: Duration,
    /// Length of a frame, in seconds of demand.
    pub seconds_per_frame: u32,
    /// Seconds with samples that make a frame valid; memory samples must cover as many.
    pub valid_seconds: u32,
    /// N: frames in the ring.
    pub ring_frames: u32,
    /// Age in frames up to which a pod's request is not trusted.
    pub trust_from: u32,
    /// Age in frames from which a pod's request is fully trusted.
    pub trust_full: u32,
    /// Frames after a departure within which another pod of the controller continues the history: ten minutes, at most
    /// a ring.
    pub succession_frames: u32,
    /// Consecutive frame ends that must agree before the ratio rises.
    pub up_after: u32,
    /// Least difference for a rise, in cents: each change is a write to the Node.
    pub dead_band: u32,
    /// Frames over which the worst climb of memory is computed.
    pub climb_frames: u32,
    /// At each frame a pod's long-term peak decays by 1/`peak_decay`; it halves in 7 rings of frames.
    pub peak_decay: u64,
    /// Interval between two samples of memory.
    pub memory_sample: Duration,
    /// Interval at which brakes are evaluated.
    pub brake_period: Duration,
    /// Time that brakes L1, L2 and L3 stay after the last period that called for them.
    pub brake_release: [Duration; 3],
    /// Time that L3 stays after an OOM kill.
    pub brake_release_oom: Duration,
    /// Frames between two decisions that calibrate the margin; `None` if it is not calibrated.
    pub decision_frames: Option<u32>,
    /// Longest time between two reports.
    pub report_every: Duration,
}

impl Timing {
    /// Length of a frame in real time.
    pub fn frame(&self) -> Duration {
        self.second * self.seconds_per_frame
    }

    /// Conditions for a rise of the ratio.
    pub const fn rise(&self) -> Rise {
        Rise {
            after: self.up_after,
            dead_band: self.dead_band,
        }
    }

    /// c: frames of trust of a pod of that age, 0 to [`Self::trust_span`].
    pub fn trusted_frames(&self, age: u32) -> u32 {
        age.saturating_sub(self.trust_from).min(self.trust_span())
    }

    /// Frames between no trust and full trust; at least 1.
    pub fn trust_span(&self) -> u32 {
        self.trust_full.saturating_sub(self.trust_from).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_five_minutes_or_one_second() {
        assert_eq!(Profile::Production.timing().frame(), Duration::from_secs(300));
        assert_eq!(Profile::Demo.timing().frame(), Duration::from_secs(1));
        assert_eq!(Profile::Production.timing().trust_span(), 264);
    }

    #[test]
    fn names_read_back() {
        for profile in Profile::ALL {
            assert_eq!(Profile::from_name(profile.name()), Some(profile));
        }
    }
}
