//! [`ProfileSources`]: colocation profiles, and the objects needed to apply them.

use std::sync::Arc;

use headroom_domain::selector::Labels;
use headroom_rules::profile::PriorityClass;

use super::{
    namespaces::NamespacesByName,
    priority_classes::PriorityClasses,
    profiles::{KnownProfile, Profiles},
};
use crate::store::{arrivals::Arrivals, by_name::Listing, lookup::ProfileLookup};

/// Three stores, each filled by a source of its own.
#[derive(Debug, Clone)]
pub struct ProfileSources {
    pub profiles: Arc<Profiles>,
    /// The namespaces that they select by.
    pub namespaces: Arc<NamespacesByName>,
    /// The priority classes that they name.
    pub classes: Arc<PriorityClasses>,
}

impl ProfileSources {
    /// Empty stores; new objects are announced to `arrivals`.
    pub fn new(arrivals: &Arrivals) -> Self {
        Self {
            profiles: Arc::new(Profiles::new(arrivals.clone())),
            namespaces: Arc::new(NamespacesByName::new(arrivals.clone())),
            classes: Arc::new(PriorityClasses::new(arrivals.clone())),
        }
    }
}

impl ProfileLookup for ProfileSources {
    fn profiles(&self) -> Arc<Listing<KnownProfile>> {
        self.profiles.all()
    }

    fn namespace(&self, name: &str) -> Option<Arc<Labels>> {
        self.namespaces.get(name)
    }

    fn priority_class(&self, name: &str) -> Option<Arc<PriorityClass>> {
        self.classes.get(name)
    }
}
