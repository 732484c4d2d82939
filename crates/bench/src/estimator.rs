//! `bench estimator`: simulated nodes under Headroom's policy and under others, run by `headroom_simulator`.

use clap::{Args as _, FromArgMatches as _};
use headroom_simulator::Estimator;

use crate::declaration::{BenchResult, Report, Row};

pub(crate) static ROW: Row = Row {
    name: "estimator",
    about: "Simulates nodes with the same pods under Headroom's policy and others: additional requests, violations, ratios.",
    flags: Estimator::augment_args,
    run: |flags| BenchResult::new(&Estimator::from_arg_matches(flags)?.run()?),
};

impl Report for headroom_simulator::Report {}
