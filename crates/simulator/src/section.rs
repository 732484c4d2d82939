//! Data of the report page's section on one load: findings of all policies, and curves for plots.

use std::collections::BTreeMap;

use super::{
    elastic::ElasticRow,
    frontier::{DominanceRow, FrontierRow},
    illustrations::{Calibration, Scene},
    open::OpenRow,
    paired::PairedRow,
    report::PolicyRow,
    rollouts::RolloutRow,
};

/// Results of one load under all policies.
#[derive(Debug, Clone, Default)]
pub(super) struct Findings {
    /// Figures in the closed loop, by policy.
    pub(super) policies: Vec<PolicyRow>,
    pub(super) open_loop: Vec<OpenRow>,
    /// Headroom and the oracle at several values of theta.
    pub(super) frontier: Vec<FrontierRow>,
    pub(super) dominance: Vec<DominanceRow>,
    /// Headroom compared with the peak rule and the oracle, by their theta.
    pub(super) paired: Vec<PairedRow>,
    /// Policies with rollouts, by strategy of Deployments.
    pub(super) rollouts: Vec<RolloutRow>,
    /// Policies by fleet: static, and elastic.
    pub(super) elastic: Vec<ElasticRow>,
    /// By policy: cumulative share of frames by ratio in cents.
    pub(super) ratio_shares: BTreeMap<&'static str, Vec<f64>>,
}

/// One load's section of the page.
#[derive(Debug, Clone)]
pub(super) struct Section {
    /// Name of the load and its resource.
    pub(super) title: String,
    pub(super) findings: Findings,
    pub(super) day: Scene,
    pub(super) calibrations: Vec<Calibration>,
    /// Reaction to a step of load.
    pub(super) step: Scene,
}
