//! Kept part of Fluid's runtimes of every kind: the nodes of their clients and of their cached data.

use std::{borrow::Cow, fmt::Debug, marker::PhantomData};

use headroom_domain::names::{FLUID_GROUP, FLUID_VERSION};
use headroom_rules::fluid::runtime::{Runtime, RuntimeKind};
use k8s_openapi::{Metadata, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::store::by_name::{ByName, Keep, namespaced};

/// A kind of runtimes.
pub trait RuntimeType: Debug + Clone + Send + Sync + 'static {
    const KIND: RuntimeKind;
    /// Name of the kind in the API.
    const NAME: &'static str;
}

/// A runtime as the API server sends it.
#[derive(Debug, Clone, Deserialize)]
#[serde(bound = "")]
pub struct WatchedRuntime<T> {
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    pub metadata: ObjectMeta,
    /// Text of its specification, which is not parsed deeper here.
    #[serde(default)]
    pub spec: Option<Box<RawValue>>,
    /// Text of its status.
    #[serde(default)]
    pub status: Option<Box<RawValue>>,
    #[serde(skip)]
    kind: PhantomData<T>,
}

macro_rules! runtime_types {
    ($($kind:ident, $name:literal, $store:ident;)*) => {$(
        #[doc = concat!("Marker of the kind `", $name, "`.")]
        #[derive(Debug, Clone)]
        pub struct $kind;

        impl RuntimeType for $kind {
            const KIND: RuntimeKind = RuntimeKind::$kind;
            const NAME: &'static str = $name;
        }

        pub type $store = ByName<WatchedRuntime<$kind>>;
    )*};
}

runtime_types! {
    Alluxio, "AlluxioRuntime", AlluxioRuntimes;
    Jindo, "JindoRuntime", JindoRuntimes;
    JuiceFs, "JuiceFSRuntime", JuiceFsRuntimes;
    Thin, "ThinRuntime", ThinRuntimes;
    Efc, "EFCRuntime", EfcRuntimes;
    Vineyard, "VineyardRuntime", VineyardRuntimes;
    Cache, "CacheRuntime", CacheRuntimes;
}

impl<T: RuntimeType> Keep for WatchedRuntime<T> {
    type Kept = Runtime;

    fn keep(&self) -> Option<Runtime> {
        let text = |part: &Option<Box<RawValue>>| {
            part.as_deref()
                .map_or_else(|| "{}".to_owned(), |part| part.get().to_owned())
        };
        // Each refusal quotes a fault. A line here would be one for each event of any author.
        Some(Runtime::read(T::KIND, &text(&self.spec), &text(&self.status)))
    }

    fn key(&self) -> Option<Cow<'_, str>> {
        namespaced(self)
    }
}

impl<T: RuntimeType> k8s_openapi::Resource for WatchedRuntime<T> {
    const API_VERSION: &'static str = "data.fluid.io/v1alpha1";
    const GROUP: &'static str = FLUID_GROUP;
    const KIND: &'static str = T::NAME;
    const VERSION: &'static str = FLUID_VERSION;
    const URL_PATH_SEGMENT: &'static str = T::KIND.plural();
    type Scope = NamespaceResourceScope;
}

impl<T> Metadata for WatchedRuntime<T>
where
    Self: k8s_openapi::Resource,
{
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
