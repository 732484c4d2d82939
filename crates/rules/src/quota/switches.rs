//! Where the rules of quotas differ from Koordinator's in what somebody may depend on.

use crate::switch::Switch;

/// Whether an answer tells all that is wrong.
pub static ALL_VIOLATIONS: Switch = Switch {
    name: "QuotaAllViolations",
    default: true,
    row: "quotas, texts",
    koordinator: "the first violation alone is told",
    about: "all violations are told, Koordinator's first one first, and the details of the status name the fields",
    why: "whoever writes a quota puts all of it right at once",
};

/// Whether what was wrong already is let through.
pub static RATCHETS: Switch = Switch {
    name: "QuotaRatchets",
    default: true,
    row: "quotas, ratchet",
    koordinator: "a quota of a tree that breaks a rule can change only if that ends the violation at once",
    about: "a change that makes no violation worse is let through, one that adds to it is not",
    why: "a tree that broke a rule by a race could not be mended step by step",
};

/// Whether changes of annotations alone are checked.
pub static CHECKS_ANNOTATIONS: Switch = Switch {
    name: "QuotaChecksAnnotations",
    default: true,
    row: "quotas, annotations",
    koordinator: "a change of shared-weight, admission or max-strict-check-resource-keys alone is not checked, and unreadable namespaces are none",
    about: "those annotations and namespaces must be readable and not negative wherever they change",
    why: "an unreadable admission refuses every pod of the quota",
};

/// Whether the API server answers to a quota that is there already.
pub static EXISTING_PASSES: Switch = Switch {
    name: "QuotaExistingPasses",
    default: true,
    row: "quotas, existing",
    koordinator: "creating a quota that exists is refused with code 400",
    about: "a quota of the same namespace and name is left to the API server, which answers 409",
    why: "clients know that code, and a retried creation is no violation",
};

/// Whether trees have a bounded depth.
pub static BOUNDED_DEPTH: Switch = Switch {
    name: "QuotaBoundedDepth",
    default: true,
    row: "quotas, depth",
    koordinator: "trees may have any number of levels",
    about: "a quota may not become the 65th level of a tree",
    why: "each check walks up to the first level",
};

/// Whether a namespace that ends takes its quotas with it.
pub static NAMESPACES_END: Switch = Switch {
    name: "QuotaNamespacesEnd",
    default: true,
    row: "quotas, namespaces",
    koordinator: "a quota that has children or pods, or is built in, keeps its namespace from ending",
    about: "the controller that ends a namespace may remove its quotas",
    why: "the namespace would hang in Terminating for as long as the webhook lives",
};
