//! A series of runs whose loads start at evenly spread times of a brake period. Disturbed runs do not count and are
//! repeated.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use headroom_agent::sample::procfs::{CpuTime, Procfs};
use headroom_testbed::programs::Programs;
use tokio::task::spawn_blocking;
use xtask::terminal::{print, span};

use super::period;
use crate::statistics::{ascending, percentile};

/// Limit of disturbed runs beyond the number of counted runs.
const MOST_DISTURBED: usize = 5;
/// Estimates for the announced duration: start of all programs, and one run.
const STARTING: Duration = Duration::from_secs(15);
const RUN: Duration = Duration::from_secs(22);

/// Flags of `brake-reaction` and `primary-cut-off`.
#[derive(Debug, Clone, Args)]
pub(super) struct RunCount {
    /// Number of runs; in each, the load starts at a different time of the brake period.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series<R> {
    pub(super) each: Vec<R>,
    pub(super) disturbed: usize,
    /// CPU time that the hypervisor gave to other machines meanwhile, in percent of all CPUs.
    pub(super) stolen_pct: f64,
}

/// Percentiles of one figure over all counted runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SeriesPlan<R> {
    pub(super) runs: u16,
    /// Prefix of the names of its nodes.
    pub(super) prefix: &'static str,
    /// Printed cause of a disturbed run.
    pub(super) disturbance: &'static str,
    /// Formats the printed result of a run.
    pub(super) line: fn(&R) -> String,
}

impl RunCount {
    /// Prints workload and expected duration, builds the programs and calls `measure`.
    ///
    /// # Errors
    /// If the build fails, and those of `measure`.
    pub(super) async fn run<R>(
        &self,
        workload: &str,
        measure: impl AsyncFnOnce(Programs, u16) -> Result<R>,
    ) -> Result<R> {
        let total = STARTING + RUN * u32::from(self.runs);
        print(format!("{workload} About {} in all.", span(total)));
        let programs = spawn_blocking(Programs::build).await??;
        measure(programs, self.runs).await
    }
}

impl<R> SeriesPlan<R> {
    /// Calls `run` with a node name and a start time within a brake period; `None` marks a disturbed run.
    ///
    /// # Errors
    /// Errors of a run, and more than `runs + MOST_DISTURBED` disturbed runs.
    pub(super) async fn measure(
        self,
        mut run: impl AsyncFnMut(&str, Duration) -> Result<Option<R>>,
    ) -> Result<Series<R>> {
        let stolen = StolenTime::start()?;
        let (mut each, mut disturbed) = (Vec::new(), 0);
        for number in 0..self.runs {
            // The period is divided into as many parts as there are runs; each load starts in the middle of one part.
            let phase = period() * (2 * u32::from(number) + 1) / (2 * u32::from(self.runs));
            let result = loop {
                let name = format!("{}-{number}-{disturbed}", self.prefix);
                if let Some(result) = run(&name, phase).await? {
                    break result;
                }
                disturbed += 1;
                print(format!("run {} is repeated: {}", number + 1, self.disturbance));
                ensure!(
                    disturbed <= MOST_DISTURBED + usize::from(self.runs),
                    "{disturbed} runs were disturbed: other processes keep contending for the CPUs of this machine"
                );
            };
            print(format!(
                "run {} of {}: {}",
                number + 1,
                self.runs,
                (self.line)(&result)
            ));
            each.push(result);
        }
        Ok(Series {
            each,
            disturbed,
            stolen_pct: stolen.percent()?,
        })
    }
}

impl<R> Series<R> {
    pub(super) fn figure(&self, figure: fn(&R) -> f64) -> Percentiles {
        let values = ascending(self.each.iter().map(figure));
        Percentiles {
            p50: percentile(&values, 50),
            p99: percentile(&values, 99),
            max: percentile(&values, 100),
        }
    }
}

/// CPU time that the hypervisor gives to other machines from a start time on.
struct StolenTime {
    began: Instant,
    before: CpuTime,
}

impl StolenTime {
    fn start() -> Result<Self> {
        Ok(Self {
            began: Instant::now(),
            before: cpu_time()?,
        })
    }

    /// Stolen time since the start, in percent of all CPUs.
    fn percent(&self) -> Result<f64> {
        let stolen_ns = cpu_time()?.steal_ns.saturating_sub(self.before.steal_ns);
        let cpus = Procfs::default().online()?.count();
        let all = self.began.elapsed().as_secs_f64() * f64::from(cpus);
        Ok(Duration::from_nanos(stolen_ns).as_secs_f64() * 100.0 / all)
    }
}

/// CPU time of all CPUs since boot.
fn cpu_time() -> Result<CpuTime> {
    let files = Procfs::default();
    Ok(files.stat()?.total(&files.online()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(runs: u16) -> SeriesPlan<f64> {
        SeriesPlan {
            runs,
            prefix: "n",
            disturbance: "others contended",
            line: |phase| format!("{phase} s"),
        }
    }

    #[tokio::test]
    async fn disturbed_runs_are_repeated_at_the_same_phase() {
        let mut begun = Vec::new();
        let series = plan(2)
            .measure(async |name, phase| {
                begun.push(name.to_owned());
                let result = (begun.len() != 1).then_some(-phase.as_secs_f64());
                Ok(result)
            })
            .await
            .unwrap();
        assert_eq!(begun, ["n-0-0", "n-0-1", "n-1-1"]);
        assert_eq!((&series.each[..], series.disturbed), (&[-2.5, -7.5][..], 1));
        let Percentiles { p50, max, .. } = series.figure(|run| *run);
        assert_eq!((p50, max), (-7.5, -2.5));
    }

    #[tokio::test]
    async fn too_many_disturbed_runs_end_the_series() {
        let mut begun = 0;
        let series = plan(3)
            .measure(async |_, _| {
                begun += 1;
                Ok(None)
            })
            .await;
        assert!(
            series
                .unwrap_err()
                .to_string()
                .starts_with("9 runs were disturbed")
        );
        assert_eq!(begun, 3 + MOST_DISTURBED + 1);
    }
}
