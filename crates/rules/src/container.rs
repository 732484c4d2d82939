//! The view of a Pod's containers: their names and what they ask for.

use headroom_domain::amounts::Amounts;
use serde::{Deserialize, Deserializer};

/// The containers of a Pod's `spec`; other members are not read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Containers {
    /// The containers that run beside each other.
    #[serde(deserialize_with = "null_is_default")]
    pub containers: Vec<Container>,
    /// The containers that run before those, sidecars among them.
    #[serde(deserialize_with = "null_is_default")]
    pub init_containers: Vec<Container>,
}

/// A container of a Pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Container {
    /// Its name, which no other container of the Pod should have.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// What it asks for.
    #[serde(deserialize_with = "null_is_default")]
    pub resources: Resources,
}

/// What a container asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// What is set aside for it.
    pub requests: Amounts,
    /// What it may use at most.
    pub limits: Amounts,
}

/// A list of containers in a Pod's `spec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerList {
    /// `initContainers`.
    Init,
    /// `containers`.
    Main,
}

impl ContainerList {
    /// Both lists, in the order in which they run.
    pub const ALL: [Self; 2] = [Self::Init, Self::Main];

    /// The member of `spec`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "initContainers",
            Self::Main => "containers",
        }
    }
}

impl Containers {
    /// The containers of one list.
    pub fn list(&self, list: ContainerList) -> &[Container] {
        match list {
            ContainerList::Init => &self.init_containers,
            ContainerList::Main => &self.containers,
        }
    }
}

fn null_is_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_and_null_members_are_empty() {
        for spec in [
            json!({}),
            json!({"containers": null, "initContainers": null}),
            json!({"containers": [], "volumes": [{"name": "v"}]}),
        ] {
            let containers: Containers = serde_json::from_value(spec).unwrap();
            assert_eq!(containers, Containers::default());
        }
        for container in [
            json!({}),
            json!({"name": null, "resources": null, "image": "x"}),
            json!({"resources": {"requests": null, "limits": {}, "claims": []}}),
        ] {
            let container: Container = serde_json::from_value(container).unwrap();
            assert_eq!(container, Container::default());
        }
    }

    #[test]
    fn a_quantity_that_cannot_be_read_is_an_error_with_its_name() {
        let spec = json!({"containers": [{"resources": {"limits": {"cpu": "many"}}}]});
        let error = serde_json::from_value::<Containers>(spec).unwrap_err();
        assert_eq!(error.to_string(), r#"cpu: "many" is not a quantity"#);
    }

    #[test]
    fn each_list_has_its_own_containers() {
        let spec = json!({"containers": [{"name": "main"}], "initContainers": [{"name": "first"}]});
        let containers: Containers = serde_json::from_value(spec).unwrap();
        let names = ContainerList::ALL.map(|list| (list.name(), containers.list(list)[0].name.as_str()));
        assert_eq!(names, [("initContainers", "first"), ("containers", "main")]);
    }
}
