//! Checks a version as the webhook would, with its rules.

use headroom_domain::installation::ConfigMapName;
use headroom_rules::{
    slo::{self, Data, Report, Settings, Target, version},
    switch::Switches,
};

use super::node_list::NodeList;

/// A version that is to be checked.
#[derive(Debug)]
pub struct VersionCheck<'c> {
    /// The ConfigMap.
    pub config_map: &'c ConfigMapName,
    /// The version.
    pub new: &'c Data,
    /// The one that it replaces.
    pub old: Option<&'c Data>,
    /// What is asked of it.
    pub settings: Settings,
    /// The switches in force.
    pub switches: &'c Switches,
    /// The nodes that its entries may select; `None` if they are not known.
    pub nodes: Option<&'c NodeList>,
}

impl VersionCheck<'_> {
    /// What the webhook would answer.
    pub fn report(&self) -> Report {
        let Self {
            config_map,
            new,
            old,
            settings,
            switches,
            nodes,
        } = *self;
        if let Some(refusal) = version::too_long(new) {
            return Report {
                refusal: Some(refusal),
                ..Report::default()
            };
        }
        let target = Target {
            namespace: config_map.namespace.as_str(),
            name: config_map.name.as_str(),
        };
        let none = NodeList::default();
        let mut report = slo::check(target, new, old, &settings, switches, nodes.unwrap_or(&none));
        if let Some(old) = old.filter(|_| report.refusal.is_none()) {
            report.warnings.extend(version::emptied(new, old));
        }
        report
    }
}
