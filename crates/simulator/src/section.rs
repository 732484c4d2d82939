//! Data of the report page's section on one load: findings of all policies, and curves for plots.

use std::collections::BTreeMap;

use super::{
    frontier::{DominanceRow, FrontierRow},
    illustrations::{Calibration, Scene},
    open::OpenRow,
    paired::PairedRow,
    report::PolicyRow,
};

/// What came of it under all policies.
#[derive(Debug, Clone, Default)]
pub(super) struct Findings {
    /// Each policy in the closed loop.
    pub(super) policies: Vec<PolicyRow>,
    /// Each policy's predictions.
    pub(super) open_loop: Vec<OpenRow>,
    /// Ours and the oracle moved along risk.
    pub(super) frontier: Vec<FrontierRow>,
    /// The others beside them.
    pub(super) dominance: Vec<DominanceRow>,
    /// Ours beside the peak rule and the oracle, by theta of these.
    pub(super) paired: Vec<PairedRow>,
    /// By policy: the share of frames whose ratio is at most that many cents.
    pub(super) ratio_shares: BTreeMap<&'static str, Vec<f64>>,
}

/// What is shown of one load.
#[derive(Debug, Clone)]
pub(super) struct Section {
    /// The load and what it is of.
    pub(super) title: String,
    /// The figures.
    pub(super) findings: Findings,
    /// A node's last day.
    pub(super) day: Scene,
    /// Margins of nodes.
    pub(super) calibrations: Vec<Calibration>,
    /// The reaction to a step of load.
    pub(super) step: Scene,
}
