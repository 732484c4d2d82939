//! The pure rules of all endpoints except those of nodes: no runtime, no clock, no I/O, no patches.
//!
//! ```text
//!                      settings, switches
//!                             |
//! object -- serde --> view -> rule -> outcome -- admission step --> recorded writes --> patch
//!                                        |
//!                                        '------ kubectl headroom --> text
//! ```
//!
//! A view contains only the parts of an object that a rule reads. An outcome states the changes or the reason for none,
//! and contains only differences; members that no rule knows stay unchanged. The webhook and the CLI run the same rules;
//! the agent runs none of them.
//!
//! Where a rule differs from Koordinator in a way that users may depend on, a [`switch::Switch`] restores the old
//! behaviour. Each switch is declared next to its rule, and [`SWITCHES`] lists them.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod agent_annotations;
pub mod binding;
pub mod change;
pub mod colocation;
pub mod completion;
pub mod container;
pub mod device;
pub mod enhanced;
pub mod explain;
pub mod extended;
pub mod fluid;
pub mod merge;
pub mod mixed_resources;
pub mod pod_check;
pub mod pod_object;
pub mod pod_quota;
pub mod pod_types;
pub mod profile;
pub mod quota;
pub mod reservation;
pub mod reserved;
pub mod slo;
pub mod switch;
pub mod translate;

use crate::switch::Switch;

/// Every switch of these rules, in the order of the endpoints.
pub static SWITCHES: [&Switch; 52] = [
    &profile::EXACT_PROBABILITY,
    &profile::TRANSLATES_APPLIED,
    &profile::SKIP_IS_BOOLEAN,
    &profile::SKIPS_MISSING_SOURCES,
    &profile::SUFFIXES_ONCE,
    &profile::FAILURES_SKIP,
    &profile::RESERVATION_NAMESPACES,
    &profile::RESERVATION_PATCH_PARTS,
    &reservation::NEEDS_SPEC,
    &extended::SIDECARS,
    &extended::REMOVES_STALE,
    &device::INIT_CONTAINERS,
    &device::FROM_LIMITS,
    &pod_check::ALL_STEPS,
    &pod_check::RESIZES,
    &pod_check::RATCHETS,
    &colocation::FIRST_BAND,
    &colocation::STRICT_MATRIX,
    &device::check::CHECKS_INIT_CONTAINERS,
    &device::check::CHECKS_CARDS,
    &device::check::INDICES,
    &enhanced::NAMES_RULES,
    &enhanced::ENABLE_ALONE,
    &pod_quota::TREE_BY_LABEL,
    &pod_quota::TREE_NODES,
    &pod_quota::TREE_NAMESPACE,
    &pod_quota::PARENT_ON_CHANGE,
    &pod_quota::GUARDS_BUILT_IN,
    &pod_quota::CHECKS_GROWTH,
    &pod_quota::USED_BY_SUM,
    &pod_quota::ALL_RESOURCES,
    &pod_quota::ADMISSION_ABOVE_MAX,
    &pod_quota::LIMITS_ANCESTORS,
    &binding::EXACT_USERS,
    &binding::BINDINGS,
    &binding::CHECKS_METADATA,
    &quota::switches::ALL_VIOLATIONS,
    &quota::switches::RATCHETS,
    &quota::switches::CHECKS_ANNOTATIONS,
    &quota::switches::EXISTING_PASSES,
    &quota::switches::BOUNDED_DEPTH,
    &quota::switches::NAMESPACES_END,
    &slo::switches::QOS_WITHOUT_SYSTEM,
    &slo::switches::PAIRS_USE_DEFAULTS,
    &slo::switches::BANDWIDTH_BY_KIND,
    &slo::switches::DEPENDENT_KEYS,
    &slo::switches::EXACT_OVERLAP,
    &slo::switches::NEEDS_WORDS,
    &slo::switches::CHECKS_ALL_KEYS,
    &fluid::ALL_DATASETS,
    &fluid::EMPTY_TERMS,
    &fluid::READS_NODE_SELECTOR,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn switch_names_are_unique_and_every_switch_is_described() {
        let names: BTreeSet<_> = SWITCHES.iter().map(|switch| switch.name).collect();
        assert_eq!(names.len(), SWITCHES.len());
        for switch in SWITCHES {
            let texts = [
                switch.name,
                switch.row,
                switch.koordinator,
                switch.about,
                switch.why,
            ];
            assert!(texts.iter().all(|text| !text.is_empty()), "{switch:?}");
            assert!(
                texts.iter().all(|text| !text.contains(['|', '\n'])),
                "it is a row of a table: {switch:?}"
            );
        }
    }
}
