//! All durations and counts of the estimator as one value, in two profiles: production, and compressed for a
//! demonstration.

use std::{fmt, time::Duration};

/// Seconds in a frame of production: short beside the hours in which load changes, long beside the seconds in which a kubelet
/// writes what the ratio makes of a Node.
pub const FRAME_SECONDS: u32 = 300;
/// Frames of production in an hour.
pub const FRAMES_AN_HOUR: u32 = 3600 / FRAME_SECONDS;
/// Frames of production in a day, which is what is remembered of a node.
pub const FRAMES_A_DAY: u32 = 24 * FRAMES_AN_HOUR;

/// Largest rise of a published ratio per frame, in cents.
pub const STEP: u32 = 5;

/// Which timing is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// Frames of five minutes, a day of history.
    #[default]
    Production,
    /// Frames of one second, twenty of them; only to be shown. See docs/estimator.md#timings.
    Demo,
}

impl Profile {
    /// Both profiles.
    pub const ALL: [Self; 2] = [Self::Production, Self::Demo];

    /// The word in configuration, hints and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Demo => "demo",
        }
    }

    /// The profile of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// The profile's values.
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

/// When a ratio rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rise {
    /// Frame ends in a row that must agree.
    pub after: u32,
    /// What is missing at least, in cents.
    pub dead_band: u32,
}

/// The durations and counts of the estimator. See docs/estimator.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The profile these values are of.
    pub profile: Profile,
    /// What counts as one second of demand.
    pub second: Duration,
    /// Seconds in a frame.
    pub seconds_per_frame: u32,
    /// Seconds with samples that make a frame valid; samples of memory must cover as many.
    pub valid_seconds: u32,
    /// N: frames in the ring.
    pub ring_frames: u32,
    /// Age in frames below which a pod's request is not trusted at all.
    pub trust_from: u32,
    /// Age in frames from which it is trusted in full.
    pub trust_full: u32,
    /// Frame ends in a row that must agree before the ratio rises.
    pub up_after: u32,
    /// Least difference that makes the ratio rise, in cents: each change is a write of the Node.
    pub dead_band: u32,
    /// Frames over which memory's worst climb is taken.
    pub climb_frames: u32,
    /// A pod's long peak loses one part in this many at each frame: 7 rings of frames halve it.
    pub peak_decay: u64,
    /// Interval of memory samples.
    pub memory_sample: Duration,
    /// Interval at which brakes are judged.
    pub brake_period: Duration,
    /// How long brakes L1, L2 and L3 stay after the last period that called for them.
    pub brake_release: [Duration; 3],
    /// How long L3 stays after an OOM kill.
    pub brake_release_oom: Duration,
    /// Frames between two decisions that calibrate the margin; `None` where it is not calibrated.
    pub decision_frames: Option<u32>,
    /// Longest time between two reports.
    pub report_every: Duration,
}

impl Timing {
    /// Length of a frame.
    pub fn frame(&self) -> Duration {
        self.second * self.seconds_per_frame
    }

    /// When a ratio rises.
    pub const fn rise(&self) -> Rise {
        Rise {
            after: self.up_after,
            dead_band: self.dead_band,
        }
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
