//! The demo's story as a state machine over snapshots: detects events, decides the next action and checks the claims.

pub(super) mod checks;

use std::collections::BTreeMap;

use headroom_domain::resource::Resource;

use super::{cluster_state::NodeState, snapshot::Snapshot};

/// The ratio that counts as risen, in cents.
const RISEN_CENTS: u64 = 115;
/// The load begins when the ratio has not moved for this long, but not before [`LOAD_NOT_BEFORE_MS`].
const STEADY_MS: u64 = 4000;
/// The earliest begin of the load after Node Ready.
const LOAD_NOT_BEFORE_MS: u64 = 34_000;
/// The latest begin of the load, steady or not.
const LOAD_NOT_AFTER_MS: u64 = 46_000;
/// Room that the load must find, in percent of raw: less is not worth taking away.
const ROOM_PERCENT: u64 = 5;
/// How long the load lasts.
const LOAD_MS: u64 = 6000;
/// Use from which a second counts as saturated, in percent of capacity.
const SATURATED_PERCENT: u64 = 95;
/// Room that must come back, in percent of the room before.
const RECOVERED_PERCENT: u64 = 80;

/// Where the story is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Pods ask for more than they use; the ratio is to rise and the waiting pods are to get their place.
    Rise,
    /// Real load: room is to be taken away.
    Load,
    /// The load is over: room is to come back.
    Recover,
    /// All of it has been seen.
    Done,
}

impl Act {
    /// A sentence for the screen.
    pub(super) const fn sentence(self) -> &'static str {
        match self {
            Self::Rise => "pods ask for far more than they use: the ratio rises, waiting pods fit",
            Self::Load => "real load: brake and ratio take free capacity away, no bound pod is hurt",
            Self::Recover => "the load is over: its peak is forgotten after 20 s, then room comes back",
            Self::Done => "all of the story has been seen",
        }
    }
}

/// Something worth a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The first snapshot.
    NodeReady,
    /// A waiting pod was refused for lack of CPU.
    Refused,
    /// The ratio reached what counts as risen.
    Risen,
    /// All waiting pods have their place.
    Admitted,
    /// The load begins now.
    LoadStart,
    /// The first saturated second.
    Saturated,
    /// At most half of the free capacity is left.
    Taken,
    /// The load ends now.
    LoadEnd,
    /// Enough of the earlier room is back.
    Recovered,
}

impl Event {
    /// The word in `--json` lines.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::NodeReady => "node-ready",
            Self::Refused => "failed-scheduling",
            Self::Risen => "ratio-risen",
            Self::Admitted => "scheduled",
            Self::LoadStart => "load-start",
            Self::Saturated => "saturated",
            Self::Taken => "free-halved",
            Self::LoadEnd => "load-end",
            Self::Recovered => "recovered",
        }
    }
}

/// The story so far.
#[derive(Debug)]
pub(super) struct Story {
    act: Act,
    /// When each event was seen, and the snapshot of that moment.
    seen: BTreeMap<Event, Snapshot>,
    ratio_moved: (u64, u64),
    /// The lowest distance of allocatable to what is bound, below zero in milli-cores, if it ever was.
    undercut: Option<u64>,
    hurt: Option<String>,
    formula_broken: Option<String>,
    sources: Vec<String>,
    runs: Option<(u64, u64)>,
    truth: Vec<(u64, u64)>,
    last: Snapshot,
}

impl Story {
    /// A story that has not begun.
    pub(super) fn new() -> Self {
        Self {
            act: Act::Rise,
            seen: BTreeMap::new(),
            ratio_moved: (0, 0),
            undercut: None,
            hurt: None,
            formula_broken: None,
            sources: Vec::new(),
            runs: None,
            truth: Vec::new(),
            last: Snapshot::default(),
        }
    }

    /// Where the story is.
    pub(super) fn act(&self) -> Act {
        self.act
    }

    /// Takes a snapshot in and says what happened. The caller starts and ends the load as told.
    pub(super) fn observe(&mut self, now: &Snapshot) -> Vec<Event> {
        self.check_always(now);
        let mut events = Vec::new();
        self.note(Event::NodeReady, true, now, &mut events);
        self.note(Event::Refused, now.was_refused, now, &mut events);
        self.note(Event::Risen, now.ratio.cpu >= RISEN_CENTS, now, &mut events);
        self.note(
            Event::Admitted,
            now.admitted > 0 && now.pending == 0 && now.was_refused,
            now,
            &mut events,
        );
        match self.act {
            Act::Rise => {
                let has_room = now.free_cpu() * 100 >= now.raw.cpu * ROOM_PERCENT;
                let is_ready = has_room
                    && self.seen.contains_key(&Event::Admitted)
                    && self.seen.contains_key(&Event::Risen);
                let is_steady =
                    now.at_ms >= self.ratio_moved.1 + STEADY_MS && now.at_ms >= LOAD_NOT_BEFORE_MS;
                if is_ready && (is_steady || now.at_ms >= LOAD_NOT_AFTER_MS) {
                    self.note(Event::LoadStart, true, now, &mut events);
                    self.act = Act::Load;
                }
            }
            Act::Load => {
                self.note(Event::Saturated, is_saturated(now), now, &mut events);
                self.note_taken(now, &mut events);
                let began = self.at(Event::LoadStart).unwrap_or_default();
                if now.at_ms >= began + LOAD_MS {
                    self.note(Event::LoadEnd, true, now, &mut events);
                    self.act = Act::Recover;
                }
            }
            Act::Recover => {
                self.note_taken(now, &mut events);
                let before = self.seen.get(&Event::LoadStart).map_or(0, Snapshot::free_cpu);
                let is_back = now.free_cpu() * 100 >= before * RECOVERED_PERCENT;
                if self.seen.contains_key(&Event::Taken) && is_back {
                    self.note(Event::Recovered, true, now, &mut events);
                    self.act = Act::Done;
                }
            }
            Act::Done => {}
        }
        self.last = now.clone();
        events
    }

    fn at(&self, event: Event) -> Option<u64> {
        self.seen.get(&event).map(|snapshot| snapshot.at_ms)
    }

    fn note(&mut self, event: Event, has_happened: bool, now: &Snapshot, events: &mut Vec<Event>) {
        if has_happened && !self.seen.contains_key(&event) {
            self.seen.insert(event, now.clone());
            events.push(event);
        }
    }

    fn note_taken(&mut self, now: &Snapshot, events: &mut Vec<Event>) {
        let before = self.seen.get(&Event::LoadStart).map_or(0, Snapshot::free_cpu);
        self.note(Event::Taken, now.free_cpu() * 2 <= before, now, events);
    }

    /// What must hold in every snapshot.
    fn check_always(&mut self, now: &Snapshot) {
        if now.ratio.cpu != self.ratio_moved.0 {
            self.ratio_moved = (now.ratio.cpu, now.at_ms);
        }
        if now.allocatable.cpu < now.bound_cpu {
            self.undercut = self.undercut.max(Some(now.bound_cpu - now.allocatable.cpu));
        }
        self.hurt = self.hurt.take().or_else(|| now.hurt.clone());
        if !now.source.is_empty() && !self.sources.contains(&now.source) {
            self.sources.push(now.source.clone());
        }
        if now.prog_runs > 0 {
            let first = self.runs.map_or(now.prog_runs, |(first, _)| first);
            self.runs = Some((first, now.prog_runs));
        }
        if now.cpu_used > 0 && now.cpu_truth > 0 {
            self.truth.push((now.cpu_used, now.cpu_truth));
        }
    }

    /// Checks one revision of the Node, also those between two snapshots.
    pub(super) fn check_revision(&mut self, node: &NodeState) {
        for resource in Resource::ALL {
            let (raw, ratio) = (*node.raw.get(resource), *node.ratio.get(resource));
            let allocatable = *node.allocatable.get(resource);
            let expected = u128::from(raw) * u128::from(ratio) / 100;
            if expected != u128::from(allocatable) && self.formula_broken.is_none() {
                let version = &node.resource_version;
                let text =
                    format!("{resource}: {allocatable} is not floor({raw} x {ratio} / 100) at {version}");
                self.formula_broken = Some(text);
            }
        }
    }
}

fn is_saturated(now: &Snapshot) -> bool {
    now.cpu_capacity > 0 && now.cpu_busy * 100 >= now.cpu_capacity * SATURATED_PERCENT
}

#[cfg(test)]
mod tests {
    use headroom_domain::resource::PerResource;

    use super::*;

    fn snapshot(at_ms: u64, ratio: u64, busy: u64) -> Snapshot {
        Snapshot {
            at_ms,
            source: "ebpf".to_owned(),
            cpu_used: busy,
            cpu_busy: busy,
            cpu_truth: busy,
            cpu_capacity: 2000,
            ratio: PerResource {
                cpu: ratio,
                memory: 100,
            },
            raw: PerResource { cpu: 1900, memory: 4 },
            allocatable: PerResource {
                cpu: 1900 * ratio / 100,
                memory: 4,
            },
            bound_cpu: 1700,
            prog_runs: at_ms + 1,
            was_refused: at_ms >= 2000,
            pending: usize::from(ratio < 115),
            admitted: usize::from(ratio >= 115),
            ..Snapshot::default()
        }
    }

    /// A run as it should go, second by second.
    fn good_run(change: impl Fn(&mut Snapshot)) -> Story {
        let mut story = Story::new();
        for second in 0..90_u64 {
            let (ratio, busy) = match second {
                0..10 => (100, 300),
                36..37 => (130, 2000),
                37..65 => (100, if second < 42 { 2000 } else { 300 }),
                _ => (130, 300),
            };
            let mut now = snapshot(second * 1000, ratio, busy);
            change(&mut now);
            story.observe(&now);
        }
        story
    }

    fn failed(story: &Story) -> Vec<String> {
        story
            .checks()
            .into_iter()
            .filter(|check| check.outcome.is_err())
            .map(|check| check.claim)
            .collect()
    }

    #[test]
    fn a_good_run_passes_every_check() {
        let story = good_run(|_| {});
        assert_eq!((failed(&story), story.act()), (vec![], Act::Done));
    }

    #[test]
    fn each_claim_can_fail() {
        for (change, claim) in [
            (
                (|now| now.source = "procfs".to_owned()) as fn(&mut Snapshot),
                "the kernel is measured through eBPF",
            ),
            (
                |now| now.prog_runs = 1,
                "the kernel's own count of our program's runs grows",
            ),
            (
                |now| now.cpu_truth = now.cpu_used * 2,
                "measured CPU is within 10 % of the root group's runtime",
            ),
            (
                |now| now.was_refused = false,
                "a Deployment that did not fit gets its place",
            ),
            (
                |now| now.cpu_busy = now.cpu_busy.min(1000),
                "under load, half of the free capacity is gone within 5 s",
            ),
            (
                |now| now.bound_cpu = if now.at_ms == 50_000 { 1901 } else { 1700 },
                "nothing bound is touched",
            ),
            (
                |now| now.hurt = (now.at_ms == 60_000).then(|| "pod x failed".to_owned()),
                "nothing bound is touched",
            ),
        ] {
            assert!(
                failed(&good_run(change)).contains(&claim.to_owned()),
                "{claim} did not fail"
            );
        }
    }

    #[test]
    fn a_revision_that_breaks_the_formula_is_told() {
        let mut story = good_run(|_| {});
        let mut node = NodeState {
            allocatable: PerResource {
                cpu: 2470,
                memory: 100,
            },
            raw: PerResource {
                cpu: 1900,
                memory: 100,
            },
            ratio: PerResource {
                cpu: 130,
                memory: 100,
            },
            ..NodeState::default()
        };
        story.check_revision(&node);
        assert_eq!(failed(&story), Vec::<String>::new());
        node.allocatable.cpu += 1;
        story.check_revision(&node);
        assert_eq!(
            failed(&story),
            vec!["allocatable is floor(raw x ratio / 100) in every revision"]
        );
    }

    #[test]
    fn the_load_waits_for_room_that_is_worth_taking() {
        let story = good_run(|now| now.bound_cpu = now.allocatable.cpu.saturating_sub(90));
        assert_eq!(story.act(), Act::Rise);
        assert_eq!(failed(&story).len(), 2);
    }

    #[test]
    fn a_machine_without_room_says_its_budget() {
        let mut story = Story::new();
        for second in 0..90 {
            story.observe(&Snapshot {
                cpu_safe: 1800,
                cpu_predicted: 2100,
                cpu_warm: 1700,
                ..snapshot(second * 1000, 100, 1900)
            });
        }
        let risen = story
            .checks()
            .into_iter()
            .find(|check| check.claim.contains("reaches"))
            .unwrap();
        assert!(
            risen
                .outcome
                .unwrap_err()
                .contains("C = 2000m, T = 1800m, P = 2100m, Rw = 1700m")
        );
        assert_eq!(story.act(), Act::Rise);
    }
}
