//! Receives request bodies: each within its own time, and within a budget of memory. Reviews of node endpoints have budgets
//! of their own, one for bodies up to 1 MiB and one for longer ones, and all other reviews have two as large.
//!
//! Memory is reserved as bytes arrive, not from Content-Length. The concurrency permit is acquired after the full
//! body is read, so a slow client cannot block others. If a budget is exhausted, the bodies that have been arriving
//! for longest are dropped. The API server sends a body at once, so a slow body is the one dropped. A complete body
//! keeps its memory until its answer. A review that waits for an object is among those bodies while it waits: it is
//! answered without that object when its memory is needed.

use std::{
    collections::BTreeMap,
    error::Error,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Buf as _;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use tokio::{
    select,
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};

use super::{Limits, buffer::Buffer};
use crate::admission::{
    endpoint::{Deadline, Family},
    error::AdmissionError,
};

/// Longest body of a review that is answered in passing, in bytes. Reviews of Nodes are a tenth of it; longer ones take
/// milliseconds, and have a budget and a permit of their own.
pub(super) const SMALL_BYTES: usize = 1 << 20;
/// The least that a body takes of the budget once its first byte is there.
const FIRST_BYTES: usize = 4 << 10;

pub(super) struct Intake {
    limit: usize,
    nodes: Budgets,
    others: Budgets,
}

/// Memory for the bodies of some endpoints.
struct Budgets {
    /// For those up to [`SMALL_BYTES`].
    small: Arc<Budget>,
    large: Arc<Budget>,
}

/// A body with its place in the budget.
pub(super) struct Received {
    buffer: Buffer,
    place: BodyPlace,
}

struct Budget {
    /// A permit for each KiB.
    kib: Arc<Semaphore>,
    size: u32,
    /// Bodies that are still coming, and those of reviews that wait, oldest first.
    incoming: Mutex<BTreeMap<u64, IncomingBody>>,
    /// Number of the next body.
    next: AtomicU64,
}

/// A body that is dropped if its memory is needed.
struct IncomingBody {
    /// Reserved memory, in KiB.
    held: u32,
    give_up: Arc<Notify>,
}

/// A body's place in a budget.
struct BodyPlace {
    budget: Arc<Budget>,
    number: u64,
    given_up: Arc<Notify>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Received {
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Result of `waiting`; `None` as soon as others need the memory of this body.
    pub(super) async fn unless_needed<T>(&self, waiting: impl Future<Output = T>) -> Option<T> {
        let place = &self.place;
        place.list();
        let result = place.or_give_up(waiting).await.ok();
        place.unlist();
        result
    }
}

impl Intake {
    pub(super) fn new(limits: &Limits) -> Self {
        let Limits {
            body_bytes,
            buffered_kib,
            concurrent: _,
        } = *limits;
        let budgets = || Budgets {
            small: Arc::new(Budget::new(buffered_kib.max(kib(SMALL_BYTES.min(body_bytes))))),
            large: Arc::new(Budget::new(kib(body_bytes))),
        };
        Self {
            limit: body_bytes,
            nodes: budgets(),
            others: budgets(),
        }
    }

    /// The whole of a body for an endpoint of that family, of which `announced` bytes are announced, and which may be
    /// `longest` bytes long.
    ///
    /// # Errors
    /// If it is too long, does not come in time, is given up for others, or its connection breaks.
    pub(super) async fn receive<B>(
        &self,
        family: Family,
        body: B,
        announced: Option<usize>,
        longest: usize,
        deadline: Deadline,
    ) -> Result<Received, AdmissionError>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let limit = self.limit.min(longest);
        if announced.is_some_and(|length| length > limit) {
            return Err(AdmissionError::TooLarge { limit });
        }
        let budgets = match family {
            Family::Nodes => &self.nodes,
            Family::Koordinator | Family::Fluid => &self.others,
        };
        let deadline = deadline.of_body();
        let collected = timeout_at(deadline.at().into(), budgets.collect(body, announced, limit)).await;
        collected.unwrap_or_else(|_elapsed| {
            Err(AdmissionError::SlowBody {
                limit: deadline.limit(),
            })
        })
    }
}

impl Budgets {
    async fn collect<B>(
        &self,
        body: B,
        announced: Option<usize>,
        limit: usize,
    ) -> Result<Received, AdmissionError>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut body = pin!(body);
        let (mut buffer, mut held) = (Buffer::Small(Vec::new()), 0);
        let mut place = BodyPlace::enter(self.budget(announced.unwrap_or_default()));
        while let Some(frame) = place.or_give_up(body.frame()).await? {
            let frame = frame.map_err(|error| AdmissionError::Body(error.into()))?;
            // Trailers contain nothing relevant.
            let Ok(data) = frame.into_data() else { continue };
            let needed = buffer.bytes().len() + data.remaining();
            if needed > limit {
                return Err(AdmissionError::TooLarge { limit });
            }
            if needed > held {
                let capacity = capacity(needed, announced).min(limit);
                let budget = self.budget(announced.unwrap_or(capacity));
                if !Arc::ptr_eq(budget, &place.budget) {
                    place = BodyPlace::enter(budget);
                }
                place.grow(kib(capacity)).await?;
                if Arc::ptr_eq(budget, &self.large) {
                    let pages = buffer.into_pages(announced.unwrap_or(limit));
                    buffer = pages.map_err(|error| AdmissionError::Body(error.into()))?;
                }
                buffer.reserve(capacity);
                held = capacity;
            }
            buffer.put(data);
        }
        place.unlist();
        Ok(Received { buffer, place })
    }

    /// The budget that a body of this length is held in.
    fn budget(&self, bytes: usize) -> &Arc<Budget> {
        if bytes > SMALL_BYTES {
            &self.large
        } else {
            &self.small
        }
    }
}

/// Capacity for a body of which `needed` bytes have arrived: a few times as much, so that it is seldom moved, but
/// bytes that do not arrive take no memory.
fn capacity(needed: usize, announced: Option<usize>) -> usize {
    let ahead = (4 * needed).max(FIRST_BYTES);
    let whole = announced.unwrap_or_else(|| (2 * needed).max(FIRST_BYTES));
    ahead.min(whole).max(needed)
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

impl Budget {
    fn new(kib: u32) -> Self {
        let size = kib.min(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        Self {
            kib: Arc::new(Semaphore::new(size as usize)),
            size,
            incoming: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    fn incoming(&self) -> MutexGuard<'_, BTreeMap<u64, IncomingBody>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the oldest listed bodies until they free `kib`, except the body with that number.
    fn drop_oldest(&self, kib: u32, but: u64) {
        let mut incoming = self.incoming();
        let mut freed = 0;
        let older: Vec<u64> = incoming
            .iter()
            .filter(|(number, body)| **number != but && body.held > 0)
            .take_while(|(_, body)| {
                let is_enough = freed >= kib;
                freed += body.held;
                !is_enough
            })
            .map(|(number, _)| *number)
            .collect();
        for number in older {
            if let Some(body) = incoming.remove(&number) {
                body.give_up.notify_one();
            }
        }
    }
}

impl BodyPlace {
    /// A place for a body that begins to come; it holds nothing yet.
    fn enter(budget: &Arc<Budget>) -> Self {
        let place = Self {
            budget: Arc::clone(budget),
            number: budget.next.fetch_add(1, Ordering::Relaxed),
            given_up: Arc::new(Notify::new()),
            permit: None,
        };
        place.list();
        place
    }

    /// Lets others have the memory of this body.
    fn list(&self) {
        let body = IncomingBody {
            held: self.reserved_kib(),
            give_up: Arc::clone(&self.given_up),
        };
        self.budget.incoming().insert(self.number, body);
    }

    fn unlist(&self) {
        self.budget.incoming().remove(&self.number);
    }

    /// Reserved memory, in KiB.
    fn reserved_kib(&self) -> u32 {
        let held = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        u32::try_from(held).unwrap_or(u32::MAX)
    }

    /// Result of `waiting`, unless the body is dropped meanwhile.
    async fn or_give_up<T>(&self, waiting: impl Future<Output = T>) -> Result<T, AdmissionError> {
        select! {
            biased;
            () = self.given_up.notified() => Err(AdmissionError::GivenUp { limit: self.budget.size as usize }),
            come = waiting => Ok(come),
        }
    }

    /// Takes as much of the budget as makes `kib` in all.
    async fn grow(&mut self, kib: u32) -> Result<(), AdmissionError> {
        let more = kib.saturating_sub(self.reserved_kib());
        let semaphore = Arc::clone(&self.budget.kib);
        let permit = if let Ok(permit) = Arc::clone(&semaphore).try_acquire_many_owned(more) {
            permit
        } else {
            self.budget.drop_oldest(more, self.number);
            let permit = self.or_give_up(semaphore.acquire_many_owned(more)).await?;
            // The semaphore is never closed.
            permit.map_err(|_closed| AdmissionError::GivenUp {
                limit: self.budget.size as usize,
            })?
        };
        match &mut self.permit {
            Some(own) => own.merge(permit),
            none => *none = Some(permit),
        }
        if let Some(body) = self.budget.incoming().get_mut(&self.number) {
            body.held = kib;
        }
        Ok(())
    }
}

impl Drop for BodyPlace {
    fn drop(&mut self) {
        self.unlist();
    }
}

#[cfg(test)]
mod tests;
