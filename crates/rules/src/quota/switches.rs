//! Switches for the differences from Koordinator's quota rules.

use crate::switch::Switch;

/// Switch: a response lists all violations.
pub static ALL_VIOLATIONS: Switch = Switch {
    name: "QuotaAllViolations",
    default: true,
    row: "quotas, texts",
    koordinator: "a response contains only the first violation",
    about: "a response lists all violations, starting with Koordinator's first, and the status details name the fields",
    why: "the author of a quota can fix all faults at once",
};

/// Switch: existing faults are accepted.
pub static RATCHETS: Switch = Switch {
    name: "QuotaRatchets",
    default: true,
    row: "quotas, ratchet",
    koordinator: "a quota in a tree that breaks a rule can change only if the change removes the violation",
    about: "a change that makes no violation worse is accepted; one that makes a violation worse is refused",
    why: "otherwise a tree that broke a rule because of a race could not be fixed step by step",
};

/// Switch: changes to annotations alone are checked.
pub static CHECKS_ANNOTATIONS: Switch = Switch {
    name: "QuotaChecksAnnotations",
    default: true,
    row: "quotas, annotations",
    koordinator: "a change that affects only shared-weight, admission, guaranteed or max-strict-check-resource-keys is not checked, and an unreadable namespaces annotation counts as empty",
    about: "these annotations must be readable, without negative amounts, whenever they change",
    why: "an unreadable admission annotation blocks every pod of the quota",
};

/// Switch: the API server answers the creation of an existing quota.
pub static EXISTING_PASSES: Switch = Switch {
    name: "QuotaExistingPasses",
    default: true,
    row: "quotas, existing",
    koordinator: "creating a quota that exists is refused with code 400",
    about: "the creation of an existing quota is left to the API server, which answers 409",
    why: "clients handle code 409, and a retried creation is not a violation",
};

/// Switch: trees have a maximum depth.
pub static BOUNDED_DEPTH: Switch = Switch {
    name: "QuotaBoundedDepth",
    default: true,
    row: "quotas, depth",
    koordinator: "trees may have any number of levels",
    about: "a quota may not become the 65th level of a tree",
    why: "each check walks up to the first level",
};

/// Switch: deleting a namespace deletes its quotas.
pub static NAMESPACES_END: Switch = Switch {
    name: "QuotaNamespacesEnd",
    default: true,
    row: "quotas, namespaces",
    koordinator: "a built-in quota, or one with children or pods, blocks the deletion of its namespace",
    about: "the namespace controller may delete the quotas of a terminating namespace",
    why: "otherwise the namespace would stay in Terminating forever",
};
