//! A series of runs, in which the load comes at every time of a period of the brakes. A run that others disturb says nothing
//! and is repeated.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use headroom_agent::sample::procfs::{CpuTime, Procfs};
use xtask::terminal::print;

use super::period;

/// Runs that others may disturb, besides as many as there are to be.
const MOST_DISTURBED: usize = 5;

/// What the runs showed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series<R> {
    /// Each run that says something.
    pub(super) each: Vec<R>,
    /// Runs besides.
    pub(super) disturbed: usize,
    /// Time that the hypervisor gave to somebody else meanwhile, in percent of all CPUs.
    pub(super) stolen_pct: f64,
}

/// A series that is to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeriesPlan<R> {
    /// How many runs.
    pub(super) runs: u16,
    /// What the names of its nodes begin with.
    pub(super) prefix: &'static str,
    /// What may have disturbed a run.
    pub(super) disturbance: &'static str,
    /// What is said of a run.
    pub(super) line: fn(&R) -> String,
}

impl<R> SeriesPlan<R> {
    /// Measures. A run gets the name of its node and when the load is to come in a period; it gives `None` if it was disturbed.
    ///
    /// # Errors
    /// Of a run; if others disturb more runs than they leave alone.
    pub(super) async fn measure(
        self,
        mut run: impl AsyncFnMut(&str, Duration) -> Result<Option<R>>,
    ) -> Result<Series<R>> {
        let stolen = StolenTime::start()?;
        let (mut each, mut disturbed) = (Vec::new(), 0);
        for number in 0..self.runs {
            // In the middle of each of as many parts of a period as there are runs.
            let phase = period() * (2 * u32::from(number) + 1) / (2 * u32::from(self.runs));
            let shown = loop {
                let name = format!("{}-{number}-{disturbed}", self.prefix);
                if let Some(shown) = run(&name, phase).await? {
                    break shown;
                }
                disturbed += 1;
                print(format!("{}; once more", self.disturbance));
                ensure!(
                    disturbed <= MOST_DISTURBED + usize::from(self.runs),
                    "others contend for the CPUs of this machine all the time"
                );
            };
            print(format!(
                "run {} of {}: {}",
                number + 1,
                self.runs,
                (self.line)(&shown)
            ));
            each.push(shown);
        }
        Ok(Series {
            each,
            disturbed,
            stolen_pct: stolen.percent()?,
        })
    }
}

impl<R> Series<R> {
    /// One figure of all runs, in ascending order.
    pub(super) fn sorted(&self, figure: fn(&R) -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = self.each.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

/// What the hypervisor gives to somebody else from a moment on.
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

    /// In percent of all CPUs since then.
    fn percent(&self) -> Result<f64> {
        let stolen_ns = cpu_time()?.steal_ns.saturating_sub(self.before.steal_ns);
        let cpus = Procfs::default().online()?.count();
        let all = self.began.elapsed().as_secs_f64() * f64::from(cpus);
        Ok(Duration::from_nanos(stolen_ns).as_secs_f64() * 100.0 / all)
    }
}

/// The time of all CPUs since boot.
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
    async fn a_disturbed_run_is_repeated_at_the_same_time_of_the_period() {
        let mut begun = Vec::new();
        let series = plan(2)
            .measure(async |name, phase| {
                begun.push(name.to_owned());
                let shown = (begun.len() != 1).then_some(-phase.as_secs_f64());
                Ok(shown)
            })
            .await
            .unwrap();
        assert_eq!(begun, ["n-0-0", "n-0-1", "n-1-1"]);
        assert_eq!((&series.each[..], series.disturbed), (&[-2.5, -7.5][..], 1));
        assert_eq!(series.sorted(|run| *run), [-7.5, -2.5]);
    }

    #[tokio::test]
    async fn a_machine_that_is_never_calm_ends_the_series() {
        let mut begun = 0;
        let series = plan(3)
            .measure(async |_, _| {
                begun += 1;
                Ok(None)
            })
            .await;
        assert!(series.unwrap_err().to_string().starts_with("others contend"));
        assert_eq!(begun, 3 + MOST_DISTURBED + 1);
    }
}
