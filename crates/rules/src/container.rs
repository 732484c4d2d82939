//! View of a Pod's containers: names and resource requests.

use headroom_domain::amounts::Amounts;
use serde::{Deserialize, Deserializer};

/// Maximum number of containers in one list. Pods have a dozen at most; a client can send a thousand times as many,
/// and the memory per container exceeds its text.
const MOST_CONTAINERS: usize = 256;
/// Maximum number of amounts in requests and limits of all containers together.
const MOST_AMOUNTS: usize = 2_048;

/// Containers of a Pod's `spec`; other members are not read. Reading fails beyond 256 containers per list or 2,048
/// amounts in total.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenContainers")]
pub struct Containers {
    /// Containers that run concurrently (`spec.containers`).
    pub containers: Vec<Container>,
    /// Containers that run before those, including sidecars.
    pub init_containers: Vec<Container>,
}

/// Containers as written, before the limits are checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenContainers {
    #[serde(default, deserialize_with = "null_is_default")]
    containers: Vec<Container>,
    #[serde(default, deserialize_with = "null_is_default")]
    init_containers: Vec<Container>,
}

/// A Pod exceeds a limit of [`Containers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooManyError {
    /// The list with this name is too long.
    #[error("more than {MOST_CONTAINERS} {0}")]
    Containers(&'static str),
    /// The containers have too many requests and limits.
    #[error("more than {MOST_AMOUNTS} requests and limits")]
    Amounts,
}

/// Container of a Pod, reduced to the fields of rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Container {
    /// Name, which is unique in a valid Pod.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Requests and limits of the container.
    #[serde(deserialize_with = "null_is_default")]
    pub resources: Resources,
    /// `Always` makes an init container a sidecar.
    #[serde(rename = "restartPolicy")]
    pub restart_policy: Option<String>,
}

/// Requests and limits of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Amounts that the scheduler reserves.
    pub requests: Amounts,
    /// Maximum amounts that the container may use.
    pub limits: Amounts,
}

/// List of containers in a Pod's `spec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerList {
    /// `initContainers`, which run first, including sidecars.
    Init,
    /// `containers`, which run concurrently after those.
    Main,
}

impl Container {
    /// Returns true for an init container that keeps running next to the app containers.
    pub fn is_sidecar(&self, list: ContainerList) -> bool {
        list == ContainerList::Init && self.restart_policy.as_deref() == Some("Always")
    }
}

impl ContainerList {
    /// Both lists, in execution order.
    pub const ALL: [Self; 2] = [Self::Init, Self::Main];

    /// Name of the member in `spec`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "initContainers",
            Self::Main => "containers",
        }
    }

    /// Checks the length of a list before it is read.
    ///
    /// # Errors
    /// The list has more than 256 containers.
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
    /// Creates the view from both lists.
    ///
    /// # Errors
    /// A list has more than 256 containers, or all together have more than 2,048 amounts.
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

    /// Returns the containers of one list.
    pub fn list(&self, list: ContainerList) -> &[Container] {
        match list {
            ContainerList::Init => &self.init_containers,
            ContainerList::Main => &self.containers,
        }
    }
}

/// Deserializes a value; `null` becomes the default.
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
    fn a_pod_beyond_the_limits_is_not_read() {
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
