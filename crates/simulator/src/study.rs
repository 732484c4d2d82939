//! Runs one load under all policies: the closed loop, the open loop, and the frontier.

use std::{fs::File, io::BufWriter, path::Path};

use anyhow::{Context as _, Result};
use headroom_domain::resource::Resource;
use xtask::terminal::print;

use super::{
    args::Loops,
    closed::Run,
    elastic::{self, ElasticRow},
    figures::Figures,
    frontier::{self, FrontierRow},
    illustrations,
    open::Predictions,
    openmetrics,
    paired::PairedRow,
    policy::{self, Kind, ORACLE, OURS, PEAK_RULE, Settings},
    report::{PolicyOutcome, PolicyRow},
    rollouts::{self, RolloutRow},
    section::{Findings, Section},
    source::{DAY, Source},
    synthetic::Synthetic,
    trace::{Playback, Set},
};

/// Nodes whose margin is plotted.
const MARGINS: u32 = 4;

/// A load, from which a source is made for each seed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Load<'a> {
    /// The synthetic load of appendix A.
    Synthetic,
    Trace(&'a Set),
}

/// Parameters of a load's run.
#[derive(Debug, Clone)]
pub(super) struct Study<'a> {
    pub(super) load: Load<'a>,
    pub(super) seeds: &'a [u64],
    pub(super) nodes: u32,
    pub(super) days: u32,
    /// Coefficient of variation within a frame.
    pub(super) cv: f64,
    pub(super) settings: Settings,
    pub(super) loops: Loops,
    pub(super) kinds: Vec<&'static Kind>,
    /// Values of theta for the frontier, in ppm; empty for the built-in ones.
    pub(super) along: Vec<u32>,
    /// True if Headroom and the oracle also run at several values of theta.
    pub(super) has_frontier: bool,
    pub(super) has_rollouts: bool,
    pub(super) has_elastic: bool,
}

impl Load<'_> {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Synthetic => "synthetic",
            Self::Trace(set) => &set.name,
        }
    }

    pub(super) fn resource(self) -> Resource {
        match self {
            Self::Synthetic => Resource::Cpu,
            Self::Trace(set) => set.resource,
        }
    }
}

impl<'a> Study<'a> {
    pub(super) fn frames(&self) -> usize {
        usize::try_from(self.days).unwrap_or_default() * DAY
    }

    /// The load for a seed.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn source(&self, seed: u64) -> Result<Box<dyn Source + 'a>> {
        Ok(match self.load {
            Load::Synthetic => Box::new(Synthetic::new(seed, self.nodes, self.frames())?),
            Load::Trace(set) => Box::new(Playback::new(set, seed, self.frames())),
        })
    }

    /// The run for a seed.
    pub(super) fn run<'b>(&self, source: &'b dyn Source, settings: Settings) -> Run<'b> {
        Run {
            source,
            nodes: self.nodes,
            frames: self.frames(),
            cv: self.cv,
            settings,
        }
    }

    /// Plots of the page in addition to figures, for the first seed.
    ///
    /// # Errors
    /// If the load cannot be made.
    pub(super) fn section(&self, findings: Findings) -> Result<Section> {
        let seed = self.seeds.first().copied().unwrap_or_default();
        let source = self.source(seed)?;
        let run = self.run(source.as_ref(), self.settings);
        Ok(Section {
            title: format!("{}, {}", self.load.name(), self.settings.resource),
            findings,
            day: illustrations::day(&run, 0),
            calibrations: (0..self.nodes.min(MARGINS))
                .map(|node| illustrations::calibration(&run, node))
                .collect(),
            step: illustrations::step(self.settings),
        })
    }

    /// Writes the first seed's nodes under raw Kubernetes as scraped by a Prometheus server. Returns the results of
    /// Headroom's policy, for means of frames and for use that varies within them.
    ///
    /// # Errors
    /// If the load cannot be made or the file cannot be written.
    pub(super) fn past(&self, file: &Path) -> Result<Vec<openmetrics::PoolRow>> {
        let seed = self.seeds.first().copied().unwrap_or_default();
        self.log(seed, "scraped samples");
        let source = self.source(seed)?;
        // Scraped samples contain no pressure.
        let settings = Settings {
            has_brakes: false,
            ..self.settings
        };
        let run = self.run(source.as_ref(), settings);
        let level = Run { cv: 0.0, ..run };
        let cannot = || format!("cannot write {}", file.display());
        let mut writer = BufWriter::new(File::create(file).with_context(cannot)?);
        openmetrics::write(&level, &mut writer).with_context(cannot)?;
        let mut rows = openmetrics::rows(&level);
        if self.cv > 0.0 {
            rows.extend(openmetrics::rows(&run));
        }
        Ok(rows)
    }

    /// Runs rollouts on the synthetic load.
    ///
    /// # Errors
    /// If the load cannot be made or a thread ended early.
    fn rollouts(&self) -> Result<Vec<RolloutRow>> {
        let load = |&seed| Synthetic::new(seed, self.nodes, self.frames());
        let loads: Vec<Synthetic> = self.seeds.iter().map(load).collect::<Result<_>>()?;
        rollouts::rows(
            &loads,
            |load| self.run(load, self.settings),
            |step| print(format_args!("{}: {step}", self.load.name())),
        )
    }

    /// Runs elastic fleets of the synthetic load's services.
    ///
    /// # Errors
    /// If a load cannot be made or a thread ended early.
    fn elastic(&self) -> Result<Vec<ElasticRow>> {
        let load = |&seed| Synthetic::new(seed, self.nodes, self.frames());
        let loads: Vec<Synthetic> = self.seeds.iter().map(load).collect::<Result<_>>()?;
        elastic::rows(
            &loads,
            |load| self.run(load, self.settings),
            |step| print(format_args!("{}: {step}", self.load.name())),
        )
    }

    /// Runs all loops.
    ///
    /// # Errors
    /// If a load cannot be made or a thread ended early.
    pub(super) fn findings(&self) -> Result<Findings> {
        let mut outcomes = vec![PolicyOutcome::default(); self.kinds.len()];
        let mut predictions = vec![Predictions::default(); self.kinds.len()];
        for &seed in self.seeds {
            let source = self.source(seed)?;
            let run = self.run(source.as_ref(), self.settings);
            for (kind, outcome) in self.closed_kinds().iter().zip(&mut outcomes) {
                self.log(seed, kind.name);
                outcome.seeds.push(run.figures(kind.build)?);
            }
            if self.loops == Loops::Closed {
                continue;
            }
            self.log(seed, "open loop");
            for (sum, of_seed) in predictions.iter_mut().zip(run.predictions(&self.kinds)?) {
                sum.add(&of_seed);
            }
        }
        let raw = outcomes.first().context("raw is missing")?;
        let named = || self.kinds.iter().map(|kind| kind.name);
        let policies: Vec<PolicyRow> = named()
            .take(self.closed_kinds().len())
            .zip(&outcomes)
            .map(|(name, outcome)| self.row(name, outcome, raw))
            .collect();
        let resource = self.settings.resource.name();
        let open_row = |(name, sum): (&str, &Predictions)| sum.row(self.load.name(), resource, name);
        let ours = named().zip(&outcomes).find(|(name, _)| *name == OURS);
        let ours = ours
            .map(|(_, outcome)| outcome)
            .filter(|ours| !ours.seeds.is_empty());
        let (frontier, paired) = if self.has_frontier {
            self.frontier(raw, ours)?
        } else {
            (Vec::new(), Vec::new())
        };
        let dominance = if self.has_frontier {
            frontier::dominance(&policies, &frontier)
        } else {
            Vec::new()
        };
        Ok(Findings {
            open_loop: named().zip(&predictions).filter_map(open_row).collect(),
            ratio_shares: named()
                .zip(outcomes.iter().map(|outcome| outcome.total().ratio_shares()))
                .collect(),
            policies,
            frontier,
            dominance,
            paired,
            rollouts: if self.has_rollouts {
                self.rollouts()?
            } else {
                Vec::new()
            },
            elastic: if self.has_elastic {
                self.elastic()?
            } else {
                Vec::new()
            },
        })
    }

    /// The policies of the closed loop; excess is relative to raw, which is always one of them.
    fn closed_kinds(&self) -> &[&'static Kind] {
        let count = match self.loops {
            Loops::Both | Loops::Closed => self.kinds.len(),
            Loops::Open => 1,
        };
        self.kinds.get(..count).unwrap_or_default()
    }

    /// Headroom and the oracle if they are selected, and with Headroom its bare peak rule.
    fn moved_kinds(&self) -> impl Iterator<Item = &'static Kind> {
        let is_run = |name: &str| self.closed_kinds().iter().any(|kind| kind.name == name);
        policy::all().filter(move |kind| match kind.name {
            OURS | ORACLE => is_run(kind.name),
            PEAK_RULE => is_run(OURS),
            _ => false,
        })
    }

    /// Headroom and the oracle at each theta, and compared with the unchanged `ours`.
    fn frontier(
        &self,
        raw: &PolicyOutcome,
        ours: Option<&PolicyOutcome>,
    ) -> Result<(Vec<FrontierRow>, Vec<PairedRow>)> {
        let (mut rows, mut paired) = (Vec::new(), Vec::new());
        for kind in self.moved_kinds() {
            let name = kind.name;
            for (theta, settings) in frontier::moved(self.settings, name, &self.along) {
                let mut outcome = PolicyOutcome::default();
                for &seed in self.seeds {
                    self.log(seed, &format!("{name} at theta {theta:.2}"));
                    let source = self.source(seed)?;
                    let figures: Vec<Figures> = self.run(source.as_ref(), settings).figures(kind.build)?;
                    outcome.seeds.push(figures);
                }
                if let Some(ours) = ours.filter(|_| name != OURS) {
                    let about = (self.load.name(), self.settings.resource.name(), name);
                    paired.push(PairedRow::new(about, theta, [ours, &outcome, raw]));
                }
                let row = self.row(name, &outcome, raw);
                rows.push(FrontierRow { theta, row });
            }
        }
        Ok((rows, paired))
    }

    fn row(&self, name: &str, outcome: &PolicyOutcome, raw: &PolicyOutcome) -> PolicyRow {
        outcome.row(self.load.name(), self.settings.resource, name, raw)
    }

    fn log(&self, seed: u64, what: &str) {
        print(format_args!(
            "{} {}, seed {seed}: {what}",
            self.load.name(),
            self.settings.resource
        ));
    }
}
