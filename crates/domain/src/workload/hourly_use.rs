//! [`HourlyUse`]: the use of a workload's pods in each hour of the day, relative to their requests.

/// Hour slots in a day.
pub const SLOTS: usize = 24;
/// Least M: a workload that seemed idle may still use this share of its requests.
pub const LEAST_MEAN_PPM: u32 = 50_000;
/// Largest M + D.
pub const LARGEST_PPM: u32 = 2_000_000;
/// Unit of stored shares: 16 bits then hold [`LARGEST_PPM`], and a profile has 192 bytes.
const UNIT_PPM: u32 = 40;

/// Each day an old value loses this part: it halves in a week.
const DAYS_OF_DECAY: u32 = 10;

/// Use in one hour slot, in ppm of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotUse {
    /// M: largest mean over the workload's pods in a frame.
    pub mean_ppm: u32,
    /// D: largest excess of one pod over that mean.
    pub excess_ppm: u32,
}

impl SlotUse {
    /// M + D.
    pub const fn sum_ppm(self) -> u32 {
        self.mean_ppm.saturating_add(self.excess_ppm)
    }

    /// The larger M, and the larger D.
    #[must_use]
    pub fn largest(self, other: Self) -> Self {
        Self {
            mean_ppm: self.mean_ppm.max(other.mean_ppm),
            excess_ppm: self.excess_ppm.max(other.excess_ppm),
        }
    }
}

/// M and D of one resource by hour slot; 96 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HourlyUse {
    /// M in units of [`UNIT_PPM`]; 0 in slots that were not observed.
    mean: [u16; SLOTS],
    excess: [u16; SLOTS],
}

fn units(ppm: u32) -> u16 {
    u16::try_from(ppm.div_ceil(UNIT_PPM)).unwrap_or(u16::MAX)
}

impl HourlyUse {
    /// Use in a slot; `None` if it was not observed.
    pub fn slot(&self, slot: usize) -> Option<SlotUse> {
        let mean = *self.mean.get(slot)?;
        let excess = *self.excess.get(slot)?;
        (mean > 0).then(|| SlotUse {
            mean_ppm: u32::from(mean) * UNIT_PPM,
            excess_ppm: u32::from(excess) * UNIT_PPM,
        })
    }

    /// Replaces the use in a slot, rounded up and limited: M is at least 5 %, and M + D at most 200 %.
    pub fn set(&mut self, slot: usize, used: Option<SlotUse>) {
        let (Some(mean), Some(excess)) = (self.mean.get_mut(slot), self.excess.get_mut(slot)) else {
            return;
        };
        let SlotUse { mean_ppm, excess_ppm } = used.unwrap_or_default();
        let mean_ppm = mean_ppm.clamp(LEAST_MEAN_PPM, LARGEST_PPM);
        (*mean, *excess) = match used {
            Some(_) => (units(mean_ppm), units(excess_ppm.min(LARGEST_PPM - mean_ppm))),
            None => (0, 0),
        };
    }

    /// Replaces the use in a slot by that of a new day; the old value decays and stays while it is larger. It halves in
    /// a week, so that a weekend does not hide the next Monday.
    pub fn renew(&mut self, slot: usize, used: Option<SlotUse>) {
        let decayed = |ppm: u32| ppm - ppm / DAYS_OF_DECAY;
        let (Some(used), Some(old)) = (used, self.slot(slot)) else {
            self.set(slot, used);
            return;
        };
        let old = SlotUse {
            mean_ppm: decayed(old.mean_ppm),
            excess_ppm: decayed(old.excess_ppm),
        };
        self.set(slot, Some(used.largest(old)));
    }

    /// Raises the use in a slot to at least `used`.
    pub fn raise(&mut self, slot: usize, used: SlotUse) {
        let raised = self.slot(slot).map_or(used, |own| own.largest(used));
        self.set(slot, Some(raised));
    }

    /// Number of observed slots.
    pub fn observed(&self) -> u32 {
        u32::try_from(self.mean.iter().filter(|mean| **mean > 0).count()).unwrap_or(u32::MAX)
    }

    /// The largest M and the largest D of the day: the use in slots that were not observed.
    pub fn highest(&self) -> SlotUse {
        let slots = (0..SLOTS).filter_map(|slot| self.slot(slot));
        slots.fold(SlotUse::default(), SlotUse::largest)
    }

    /// The largest M + D of one slot.
    pub fn highest_sum_ppm(&self) -> u32 {
        let sums = (0..SLOTS)
            .filter_map(|slot| self.slot(slot))
            .map(SlotUse::sum_ppm);
        sums.max().unwrap_or_default()
    }

    /// Largest use by slot of two profiles of one workload.
    #[must_use]
    pub fn largest(mut self, other: &Self) -> Self {
        for slot in 0..SLOTS {
            if let Some(used) = other.slot(slot) {
                self.raise(slot, used);
            }
        }
        self
    }
}
