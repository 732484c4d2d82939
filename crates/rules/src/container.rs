//! The view of a Pod's containers: their names and what they ask for.

use headroom_domain::amounts::Amounts;
use serde::{Deserialize, Deserializer};

/// Most containers in one list. Pods have a dozen at most; a client can send a thousand times as many, and each costs more
/// than its text.
const MOST_CONTAINERS: usize = 256;
/// Most amounts in requests and limits of all containers together.
const MOST_AMOUNTS: usize = 2_048;

/// The containers of a Pod's `spec`; other members are not read. Reading fails beyond 256 containers in a list, or 2,048
/// amounts in all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenContainers")]
pub struct Containers {
    /// The containers that run beside each other.
    pub containers: Vec<Container>,
    /// The containers that run before those, sidecars among them.
    pub init_containers: Vec<Container>,
}

/// The containers as they are written, however many.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenContainers {
    #[serde(default, deserialize_with = "null_is_default")]
    containers: Vec<Container>,
    #[serde(default, deserialize_with = "null_is_default")]
    init_containers: Vec<Container>,
}

/// A Pod that is larger than anybody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooManyError {
    /// A list of that name is too long.
    #[error("more than {MOST_CONTAINERS} {0}")]
    Containers(&'static str),
    /// Containers ask for too many resources.
    #[error("more than {MOST_AMOUNTS} requests and limits")]
    Amounts,
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

    /// Whether a list of that length is read.
    ///
    /// # Errors
    /// It is longer than 256.
    pub const fn check_length(self, length: usize) -> Result<(), TooManyError> {
        if length > MOST_CONTAINERS {
            Err(TooManyError::Containers(self.name()))
        } else {
            Ok(())
        }
    }
}

impl TryFrom<WrittenContainers> for Containers {
    type Error = TooManyError;

    fn try_from(written: WrittenContainers) -> Result<Self, TooManyError> {
        let WrittenContainers {
            containers,
            init_containers,
        } = written;
        Self::new(containers, init_containers)
    }
}

impl Containers {
    /// The containers of both lists.
    ///
    /// # Errors
    /// There are more than 256 containers in a list, or 2,048 amounts in all.
    pub fn new(containers: Vec<Container>, init_containers: Vec<Container>) -> Result<Self, TooManyError> {
        let read = Self {
            containers,
            init_containers,
        };
        for list in ContainerList::ALL {
            list.check_length(read.list(list).len())?;
        }
        let lists = ContainerList::ALL.map(|list| read.list(list));
        let amounts = lists.into_iter().flatten().map(|container| {
            let Resources { requests, limits } = &container.resources;
            requests.iter().count() + limits.iter().count()
        });
        if amounts.sum::<usize>() > MOST_AMOUNTS {
            return Err(TooManyError::Amounts);
        }
        Ok(read)
    }

    /// The containers of one list.
    pub fn list(&self, list: ContainerList) -> &[Container] {
        match list {
            ContainerList::Init => &self.init_containers,
            ContainerList::Main => &self.containers,
        }
    }
}

/// The value, or the default for `null`.
pub(crate) fn null_is_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
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

    #[test]
    fn a_pod_larger_than_anybodys_is_not_read() {
        let container = json!({"resources": {"requests": {"a": 1, "b": 1, "c": 1, "d": 1}}});
        let read = |containers: usize, init_containers: usize| {
            let list = |count| vec![container.clone(); count];
            let spec = json!({"containers": list(containers), "initContainers": list(init_containers)});
            serde_json::from_value::<Containers>(spec).map_err(|error| error.to_string())
        };
        assert!(read(256, 256).is_ok());
        assert_eq!(read(257, 0), Err("more than 256 containers".to_owned()));
        assert_eq!(read(0, 257), Err("more than 256 initContainers".to_owned()));
        let amounts: serde_json::Map<_, _> = (0..2_049).map(|at| (at.to_string(), 1.into())).collect();
        let spec = json!({"containers": [{"resources": {"limits": amounts}}]});
        let error = serde_json::from_value::<Containers>(spec).unwrap_err();
        assert_eq!(error.to_string(), "more than 2048 requests and limits");
    }
}
