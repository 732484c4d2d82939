//! Stores of Fluid's objects: claims, Datasets, runtimes, and the plugins that place pods. They exist only while Fluid's
//! endpoint is served.

pub mod claims;
pub mod datasets;
pub mod plugins;
pub mod runtimes;

use std::sync::Arc;

use headroom_rules::fluid::{
    dataset::{Catalog, Claim, Dataset, UnknownObjects},
    plugins::PluginProfile,
    runtime::{Runtime, RuntimeKind},
};

use self::{
    claims::DatasetClaims,
    datasets::Datasets,
    plugins::WatchedPlugins,
    runtimes::{
        AlluxioRuntimes, CacheRuntimes, EfcRuntimes, JindoRuntimes, JuiceFsRuntimes, ThinRuntimes,
        VineyardRuntimes,
    },
};
use crate::store::{
    arrivals::Arrivals,
    by_name::namespaced_key,
    known::KnownSources,
    lookup::FluidLookup,
    sources::{Source, fluid},
};

/// Stores of Fluid's objects, each filled by a source of its own.
#[derive(Debug, Clone)]
pub struct FluidSources {
    pub claims: Arc<DatasetClaims>,
    pub datasets: Arc<Datasets>,
    pub alluxio: Arc<AlluxioRuntimes>,
    pub jindo: Arc<JindoRuntimes>,
    pub juice_fs: Arc<JuiceFsRuntimes>,
    pub thin: Arc<ThinRuntimes>,
    pub efc: Arc<EfcRuntimes>,
    pub vineyard: Arc<VineyardRuntimes>,
    pub cache: Arc<CacheRuntimes>,
    pub plugins: Arc<WatchedPlugins>,
}

/// Fluid's objects with the known state of their sources.
#[derive(Debug, Clone)]
pub struct FluidObjects {
    pub sources: FluidSources,
    pub known: KnownSources,
}

impl FluidSources {
    /// Empty stores; new objects are announced to `arrivals`.
    pub fn new(arrivals: &Arrivals) -> Self {
        Self {
            claims: Arc::new(DatasetClaims::new(arrivals.clone())),
            datasets: Arc::new(Datasets::new(arrivals.clone())),
            alluxio: Arc::new(AlluxioRuntimes::new(arrivals.clone())),
            jindo: Arc::new(JindoRuntimes::new(arrivals.clone())),
            juice_fs: Arc::new(JuiceFsRuntimes::new(arrivals.clone())),
            thin: Arc::new(ThinRuntimes::new(arrivals.clone())),
            efc: Arc::new(EfcRuntimes::new(arrivals.clone())),
            vineyard: Arc::new(VineyardRuntimes::new(arrivals.clone())),
            cache: Arc::new(CacheRuntimes::new(arrivals.clone())),
            plugins: Arc::new(WatchedPlugins::default()),
        }
    }
}

impl FluidObjects {
    /// An object of a source that is known.
    fn find<T>(
        &self,
        source: &'static Source,
        found: Option<Arc<T>>,
    ) -> Result<Option<Arc<T>>, UnknownObjects> {
        if self.known.is_known(source) {
            Ok(found)
        } else {
            Err(UnknownObjects(source.name))
        }
    }
}

impl Catalog for FluidObjects {
    fn claim(&self, namespace: &str, name: &str) -> Result<Option<Arc<Claim>>, UnknownObjects> {
        let key = namespaced_key(namespace, name);
        self.find(&fluid::CLAIMS, self.sources.claims.get(&key))
    }

    fn dataset(&self, namespace: &str, name: &str) -> Result<Option<Arc<Dataset>>, UnknownObjects> {
        let key = namespaced_key(namespace, name);
        self.find(&fluid::DATASETS, self.sources.datasets.get(&key))
    }

    fn runtime(
        &self,
        kind: RuntimeKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Runtime>>, UnknownObjects> {
        let (key, sources) = (namespaced_key(namespace, name), &self.sources);
        let (source, found) = match kind {
            RuntimeKind::Alluxio => (&fluid::ALLUXIO, sources.alluxio.get(&key)),
            RuntimeKind::Jindo => (&fluid::JINDO, sources.jindo.get(&key)),
            RuntimeKind::JuiceFs => (&fluid::JUICE_FS, sources.juice_fs.get(&key)),
            RuntimeKind::Thin => (&fluid::THIN, sources.thin.get(&key)),
            RuntimeKind::Efc => (&fluid::EFC, sources.efc.get(&key)),
            RuntimeKind::Vineyard => (&fluid::VINEYARD, sources.vineyard.get(&key)),
            RuntimeKind::Cache => (&fluid::CACHE, sources.cache.get(&key)),
        };
        self.find(source, found)
    }
}

impl FluidLookup for FluidObjects {
    fn plugins(&self) -> Arc<PluginProfile> {
        self.sources.plugins.profile()
    }
}

#[cfg(test)]
mod tests;
