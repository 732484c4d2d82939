//! Checks a version of the ConfigMap by the webhook's rules.

use headroom_domain::installation::ConfigMapName;
use headroom_rules::{
    slo::{self, Data, Report, Settings, Target, version},
    switch::Switches,
};

use super::node_list::NodeList;

/// Version of the ConfigMap to check.
#[derive(Debug)]
pub struct VersionCheck<'c> {
    pub config_map: &'c ConfigMapName,
    pub new: &'c Data,
    pub old: Option<&'c Data>,
    pub settings: Settings,
    pub switches: &'c Switches,
    /// Nodes that the entries may select; `None` if unknown.
    pub nodes: Option<&'c NodeList>,
}

impl VersionCheck<'_> {
    /// Result that the webhook would return.
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
