//! [`Features`]: the gates and other switches in force, which may change while the webhook serves.

use std::sync::Arc;

use arc_swap::ArcSwap;
use headroom_kit::gate::{Gate, GateError, GateSet};
use headroom_rules::{
    SWITCHES,
    switch::{Compat, SwitchError, Switches},
};
use tracing::warn;

use super::shadow::Shadow;

/// Gates of koord-manager that have no effect here, so that its command line is accepted.
pub static IGNORED_GATES: [Gate; 6] = [
    Gate::beta("WebhookFramework", NO_EFFECT),
    Gate::alpha("EnableSyncGPUSharedResource", NO_EFFECT),
    Gate::alpha("ColocationProfileController", NO_EFFECT),
    Gate::alpha("DisablePVCReservation", NO_EFFECT),
    Gate::alpha("PriorityTransformer", NO_EFFECT),
    Gate::alpha("PreemptionPolicyTransformer", NO_EFFECT),
];

const NO_EFFECT: &str = "Accepted from koord-manager's command line, without effect.";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    pub gates: GateSet,
    /// Differences from Koordinator's rules that are in force.
    pub switches: Switches,
    /// The steps whose refusals are warnings.
    pub shadow: Shadow,
}

/// Why a list of gates and switches is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// Loops of the process depend on the gate.
    #[error("feature gate {0} can be set by --feature-gates only")]
    AtStart(&'static str),
}

impl Features {
    /// These gates, switches at their defaults, and nothing in the shadow.
    pub fn with_gates(gates: GateSet) -> Self {
        Self {
            gates,
            switches: Switches::preset(SWITCHES, Compat::Headroom),
            shadow: Shadow::default(),
        }
    }

    /// Warns of gates without effect that have been set.
    pub fn warn_of_ignored_gates(&self) {
        for gate in &IGNORED_GATES {
            let is_on = self.gates.enabled(gate);
            if is_on != gate.default {
                warn!(
                    gate = gate.name,
                    is_on, "the feature gate has no effect in Headroom"
                );
            }
        }
    }

    /// Shares the features with readers while they may change.
    pub fn shared(self) -> Arc<ArcSwap<Self>> {
        Arc::new(ArcSwap::from_pointee(self))
    }

    /// The features with a list of gates and switches applied, as in `A=true,B=false`. A list with one wrong entry
    /// changes nothing.
    ///
    /// # Errors
    /// An entry that is not `Name=true|false`, an unknown name, one that is there twice, a gate among those `at_start`.
    pub fn with(
        &self,
        text: &str,
        at_start: impl IntoIterator<Item = &'static Gate>,
    ) -> Result<Self, FeatureError> {
        let name = |entry: &str| entry.split('=').next().unwrap_or_default().trim().to_owned();
        let is_switch = |entry: &&str| SWITCHES.iter().any(|switch| switch.name == name(entry));
        let (switches, gates): (Vec<&str>, Vec<&str>) = text.split(',').partition(is_switch);
        let set = self.gates.with(&gates.join(","))?;
        let changed = |gate: &&Gate| set.enabled(gate) != self.gates.enabled(gate);
        if let Some(gate) = at_start.into_iter().find(changed) {
            return Err(FeatureError::AtStart(gate.name));
        }
        Ok(Self {
            gates: set,
            switches: self.switches.with(&switches.join(","))?,
            shadow: self.shadow.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use headroom_rules::{device, extended};
    use rstest::rstest;

    use super::*;

    static FIXED: Gate = Gate::beta("Fixed", "Is set at the start.");
    static FREE: Gate = Gate::alpha("Free", "May change.");

    fn features() -> Features {
        Features::with_gates(GateSet::parse([&FIXED, &FREE], "").unwrap())
    }

    #[test]
    fn gates_and_switches_stand_in_one_list() {
        let text = "Free=true, DeviceInitContainers=false ,Fixed=true";
        let features = features().with(text, [&FIXED]).unwrap();
        assert!(features.gates.enabled(&FREE) && features.gates.enabled(&FIXED));
        assert!(!features.switches.is_on(&device::INIT_CONTAINERS));
        assert!(features.switches.is_on(&extended::SIDECARS));
        assert_eq!(features.with("", [&FIXED]), Ok(features.clone()));
    }

    #[rstest]
    #[case("Fre=true", "unknown feature gate \"Fre\"")]
    #[case("Free=true,Free=false", "feature gate Free is set more than once")]
    #[case("DeviceInitContainers=2", "is not of the form Name=true or Name=false")]
    #[case(
        "Free=true,Fixed=false",
        "feature gate Fixed can be set by --feature-gates only"
    )]
    #[case("AllBeta=false", "feature gate Fixed can be set by --feature-gates only")]
    fn a_list_that_is_wrong_in_one_entry_is_refused(#[case] text: &str, #[case] reason: &str) {
        let error = features().with(text, [&FIXED]).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
