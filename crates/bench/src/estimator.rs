//! `bench estimator`: simulated nodes under Headroom's policy and under others, run by `headroom_simulator`.

use clap::{Args as _, FromArgMatches as _};
use headroom_simulator::Estimator;

use crate::declaration::{BenchResult, Row};

/// The bench.
pub(crate) static ROW: Row = Row {
    name: "estimator",
    about: "Simulated nodes under our policy and others on the same pods: requests gained, violations, ratios.",
    flags: Estimator::augment_args,
    run: |flags| BenchResult::new(&Estimator::from_arg_matches(flags)?.run()?, Vec::new()),
};
