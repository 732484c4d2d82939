//! [`Schema`]: the lists of an object that are merged, and their keys, for Pods and pod templates.
//!
//! A member without an entry is merged member by member if it is an object, and replaced if it is a list.

/// Known members of an object.
#[derive(Debug)]
pub struct Schema(&'static [(&'static str, Field)]);

/// Member that is or contains a merged list.
#[derive(Debug)]
pub(super) enum Field {
    /// An object with known members.
    Object(&'static Schema),
    /// A list that is merged.
    List(&'static ListRule),
}

/// Rule for merging a list.
#[derive(Debug)]
pub(super) struct ListRule {
    /// Member that identifies an element; `None` for strings and numbers.
    pub(super) key: Option<&'static str>,
    /// Known members of an element.
    pub(super) elements: Schema,
}

impl Schema {
    /// Schema of an object without known members.
    pub(super) const OPEN: Self = Self(&[]);

    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        let mut fields = self.0.iter();
        fields.find(|(known, _)| *known == name).map(|(_, field)| field)
    }
}

impl Field {
    /// Known members, if the field is an object.
    pub(super) fn schema(&self) -> Option<&'static Schema> {
        match self {
            Self::Object(schema) => Some(schema),
            Self::List(_) => None,
        }
    }

    /// Merge rule, if the field is a list.
    pub(super) fn list(&self) -> Option<&'static ListRule> {
        match self {
            Self::List(rule) => Some(rule),
            Self::Object(_) => None,
        }
    }
}

/// Merged lists of a Pod, with their keys.
pub static POD: Schema = Schema(&[
    ("metadata", Field::Object(&METADATA)),
    ("spec", Field::Object(&POD_SPEC)),
    ("status", Field::Object(&POD_STATUS)),
]);

/// Schema of Koordinator's Reservation: its pod template like in Kubernetes; its own lists are replaced.
pub static RESERVATION: Schema = Schema(&[
    ("metadata", Field::Object(&METADATA)),
    ("spec", Field::Object(&RESERVATION_SPEC)),
]);

static RESERVATION_SPEC: Schema = Schema(&[("template", Field::Object(&POD_TEMPLATE))]);

static POD_TEMPLATE: Schema = Schema(&[
    ("metadata", Field::Object(&METADATA)),
    ("spec", Field::Object(&POD_SPEC)),
]);

static METADATA: Schema = Schema(&[
    (
        "ownerReferences",
        merged(&ListRule {
            key: Some("uid"),
            elements: Schema::OPEN,
        }),
    ),
    (
        "finalizers",
        merged(&ListRule {
            key: None,
            elements: Schema::OPEN,
        }),
    ),
]);

static POD_SPEC: Schema = Schema(&[
    (
        "volumes",
        merged(&ListRule {
            key: Some("name"),
            elements: VOLUME,
        }),
    ),
    ("initContainers", merged(&CONTAINERS)),
    ("containers", merged(&CONTAINERS)),
    ("ephemeralContainers", merged(&CONTAINERS)),
    ("imagePullSecrets", merged(&BY_NAME)),
    (
        "hostAliases",
        merged(&ListRule {
            key: Some("ip"),
            elements: Schema::OPEN,
        }),
    ),
    (
        "topologySpreadConstraints",
        merged(&ListRule {
            key: Some("topologyKey"),
            elements: Schema::OPEN,
        }),
    ),
    ("schedulingGates", merged(&BY_NAME)),
    ("resourceClaims", merged(&BY_NAME)),
]);

static POD_STATUS: Schema = Schema(&[
    (
        "conditions",
        merged(&ListRule {
            key: Some("type"),
            elements: Schema::OPEN,
        }),
    ),
    (
        "hostIPs",
        merged(&ListRule {
            key: Some("ip"),
            elements: Schema::OPEN,
        }),
    ),
    (
        "podIPs",
        merged(&ListRule {
            key: Some("ip"),
            elements: Schema::OPEN,
        }),
    ),
    ("resourceClaimStatuses", merged(&BY_NAME)),
]);

static BY_NAME: ListRule = ListRule {
    key: Some("name"),
    elements: Schema::OPEN,
};

static CONTAINERS: ListRule = ListRule {
    key: Some("name"),
    elements: Schema(&[
        (
            "ports",
            merged(&ListRule {
                key: Some("containerPort"),
                elements: Schema::OPEN,
            }),
        ),
        ("env", merged(&BY_NAME)),
        (
            "volumeMounts",
            merged(&ListRule {
                key: Some("mountPath"),
                elements: Schema::OPEN,
            }),
        ),
        (
            "volumeDevices",
            merged(&ListRule {
                key: Some("devicePath"),
                elements: Schema::OPEN,
            }),
        ),
    ]),
};

/// The claim template of an ephemeral volume has its own metadata.
const VOLUME: Schema = Schema(&[("ephemeral", Field::Object(&EPHEMERAL_VOLUME))]);

static EPHEMERAL_VOLUME: Schema = Schema(&[("volumeClaimTemplate", Field::Object(&CLAIM_TEMPLATE))]);

static CLAIM_TEMPLATE: Schema = Schema(&[("metadata", Field::Object(&METADATA))]);

const fn merged(rule: &'static ListRule) -> Field {
    Field::List(rule)
}
