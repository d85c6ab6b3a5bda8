//! What crosses the C boundary: status codes, owned buffers, borrowed slices, caught panics.
use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Why a call failed; the numbers are `TextStatus` in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    Ok = 0,
    InvalidArgument = 1,
    Corrupt = 2,
    Unsupported = 3,
    Panic = 4,
    Exhausted = 5,
    Io = 6,
}

#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    pub message: String,
}

pub type Outcome<T> = Result<T, Failure>;

pub fn invalid_argument(message: impl ToString) -> Failure {
    Failure {
        status: Status::InvalidArgument,
        message: message.to_string(),
    }
}

pub fn corrupt(message: impl ToString) -> Failure {
    Failure {
        status: Status::Corrupt,
        message: message.to_string(),
    }
}

pub fn unsupported(message: impl ToString) -> Failure {
    Failure {
        status: Status::Unsupported,
        message: message.to_string(),
    }
}

pub fn exhausted(message: impl ToString) -> Failure {
    Failure {
        status: Status::Exhausted,
        message: message.to_string(),
    }
}

pub fn io(message: impl ToString) -> Failure {
    Failure {
        status: Status::Io,
        message: message.to_string(),
    }
}

/// Memory of this library that the caller gives back: bytes of a text, or token ids.
#[repr(C)]
pub struct OwnedArray<T> {
    data: *mut T,
    size: usize,
    capacity: usize,
}

pub type TextBuffer = OwnedArray<u8>;
pub type TextIds = OwnedArray<u32>;

impl<T> OwnedArray<T> {
    /// Hands `values` to the caller through `out`.
    pub unsafe fn hand_over(out: *mut Self, values: Vec<T>) {
        let mut values = ManuallyDrop::new(values);
        let array = OwnedArray {
            data: values.as_mut_ptr(),
            size: values.len(),
            capacity: values.capacity(),
        };
        unsafe { out.write(array) };
    }

    unsafe fn free(array: *mut Self) {
        unsafe {
            if !(*array).data.is_null() {
                drop(Vec::from_raw_parts(
                    (*array).data,
                    (*array).size,
                    (*array).capacity,
                ));
            }
            array.write(OwnedArray {
                data: std::ptr::null_mut(),
                size: 0,
                capacity: 0,
            });
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_buffer_free(buffer: *mut TextBuffer) {
    unsafe { TextBuffer::free(buffer) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_ids_free(ids: *mut TextIds) {
    unsafe { TextIds::free(ids) };
}

/// Bytes that the caller lends for one call.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TextSlice {
    data: *const u8,
    size: usize,
}

impl TextSlice {
    #[cfg(test)]
    pub fn of(bytes: &[u8]) -> Self {
        TextSlice {
            data: bytes.as_ptr(),
            size: bytes.len(),
        }
    }

    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        unsafe { lent(self.data, self.size) }
    }

    /// `what` names the text in the error.
    pub unsafe fn text<'a>(self, what: &dyn Fn() -> String) -> Outcome<&'a str> {
        std::str::from_utf8(unsafe { self.bytes() })
            .map_err(|error| invalid_argument(format!("{} is not UTF-8: {error}", what())))
    }
}

/// `size` values at `data`, which may be null when there are none.
pub unsafe fn lent<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        &[]
    } else {
        unsafe { std::slice::from_raw_parts(data, size) }
    }
}

fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| text.to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    format!("the text library panicked: {text}")
}

/// Runs `body`; an error or a panic leaves its message in `error` and its status as the result.
pub unsafe fn guard(error: *mut TextBuffer, body: impl FnOnce() -> Outcome<()>) -> i32 {
    // The default hook would print the message, which may quote a prompt, to stderr.
    static SILENT: Once = Once::new();
    if !cfg!(test) {
        SILENT.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    }
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return Status::Ok as i32,
        Ok(Err(failure)) => failure,
        Err(payload) => Failure {
            status: Status::Panic,
            message: panic_message(payload),
        },
    };
    unsafe { TextBuffer::hand_over(error, failure.message.into_bytes()) };
    failure.status as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let mut error = TextBuffer {
            data: std::ptr::null_mut(),
            size: 0,
            capacity: 0,
        };
        let numbers: Vec<u32> = Vec::new();
        let status = unsafe {
            guard(&mut error, || {
                Err(invalid_argument(numbers[std::hint::black_box(3)]))
            })
        };
        assert_eq!(status, Status::Panic as i32);
        let message = String::from_utf8_lossy(unsafe { lent(error.data, error.size) }).into_owned();
        assert!(message.contains("index out of bounds"), "{message}");
        unsafe { text_buffer_free(&mut error) };
        assert!(error.data.is_null());
    }
}
