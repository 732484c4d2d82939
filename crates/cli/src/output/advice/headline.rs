//! Headline of advice: gained amounts, the equivalent number of nodes, and the number of pods at risk.

use headroom_domain::resource::Resource;

use crate::{
    advise::{Advice, advice::Group},
    escape::one_line,
};

/// Limit of pools with a line of their own.
const MOST_POOLS: usize = 5;
const GIB: u64 = 1 << 30;
const MILLI: u64 = 1000;

impl Advice {
    /// One line for each of the first pools, largest gain first, and one for all pools if there are several.
    pub(super) fn headline(&self) -> Vec<String> {
        let gained = |pool: &Group| Resource::ALL.map(|resource| gained(pool, resource));
        let mut pools: Vec<&Group> = self.pools.iter().collect();
        pools.sort_by_key(|pool| std::cmp::Reverse(gained(pool)));
        let mut lines = Vec::new();
        if pools.len() > 1 {
            let sum = |resource: Resource| pools.iter().map(|pool| self::gained(pool, resource)).sum::<u64>();
            let [cores, gibibytes] = [sum(Resource::Cpu), sum(Resource::Memory)];
            lines.push(format!(
                "Headroom would have added {} and {} in {} pools.",
                tenths(cores, MILLI, " cores"),
                tenths(gibibytes, GIB, " GiB"),
                pools.len()
            ));
        }
        lines.extend(pools.iter().take(MOST_POOLS).map(|pool| line(pool)));
        if let Some(more @ 1..) = pools.len().checked_sub(MOST_POOLS) {
            lines.push(format!("{more} more pools are in the table."));
        }
        lines
    }
}

fn line(pool: &Group) -> String {
    let equals = Resource::ALL.into_iter().filter_map(|resource| {
        let cents = pool.gained_nodes_cents(resource).filter(|cents| *cents > 0)?;
        let what = match resource {
            Resource::Cpu => "CPU",
            Resource::Memory => "memory",
        };
        Some(format!("the {what} of {} more nodes", tenths(cents, 100, "")))
    });
    let equals: Vec<String> = equals.collect();
    let equals = if equals.is_empty() {
        String::new()
    } else {
        format!(": {}", equals.join(" and "))
    };
    format!(
        "Pool {}, {} {}: {} and {} gained{equals}. {} of {} pods would have been at risk.",
        one_line(&pool.name),
        pool.nodes,
        if pool.nodes == 1 { "node" } else { "nodes" },
        tenths(gained(pool, Resource::Cpu), MILLI, " cores"),
        tenths(gained(pool, Resource::Memory), GIB, " GiB"),
        pool.pods_at_risk,
        pool.pods
    )
}

/// Gained milli-cores or bytes; 0 without figures.
fn gained(pool: &Group, resource: Resource) -> u64 {
    pool.figures
        .get(resource)
        .as_ref()
        .map_or(0, |figures| figures.gained)
}

/// Formats an amount in a larger unit, with one decimal, truncated so that it is never overstated.
fn tenths(amount: u64, unit: u64, name: &str) -> String {
    let tenths = u128::from(amount) * 10 / u128::from(unit);
    format!("{}.{}{name}", tenths / 10, tenths % 10)
}
