/* SPDX-License-Identifier: BSD-3-Clause */

/* Message files of an interface. A file that is not a box is not written to, lack of
 * room is reported, and an interface that ends leaves nothing, though a forked child
 * removes nothing. */

#include "test/support/mkv_check.h"
#include "test/unit/xgmi/ends_here.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_S 300


/* ---- calls of the file system ---- */

static bool is_full;
static unsigned num_signals; /* that come while room is made */
static ino_t there_in; /* The file that has bytes, and how many from its beginning on */
static off_t num_there;

/* Behaves like tmpfs: files are holes until they are written, written parts have room,
 * and signals interrupt the call; man 3 posix_fallocate. */
int posix_fallocate(int fd, off_t offset, off_t length)
{
    static int (*real)(int fd, off_t offset, off_t length);
    struct stat st;

    ck_assert_int_eq(fstat(fd, &st), 0);
    if (num_signals > 0) {
        --num_signals;
        return EINTR;
    }
    if (is_full) {
        return ((st.st_ino == there_in) && (st.st_size >= num_there) &&
                (offset + length <= num_there))
                   ? 0
                   : ENOSPC;
    }
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "posix_fallocate");
    }
    if (offset == 0) {
        there_in = st.st_ino;
        num_there = length;
    }
    return real(fd, offset, length);
}

static void setup_room(void)
{
    is_full = false;
    num_signals = 0;
    setup();
}


/* ---- files ---- */

static void path_of(const char *suffix, char *path, size_t size)
{
    muct_xgmi_page_iface_path(dir, self.owner, id, suffix, path, size);
}

static bool is_there(const char *suffix)
{
    char path[512];

    path_of(suffix, path, sizeof(path));
    return access(path, F_OK) == 0;
}

static void no_box(void)
{
    muct_xgmi_outbox_t *outbox;

    ck_assert_int_eq(try_open(self.owner, &outbox), UCS_ERR_UNREACHABLE);
    ck_assert_uint_le(atomic_load(&inbox->box->places[0].owner),
                      MUCT_XGMI_BOX_GIVEN_BACK);
}

START_TEST(a_box_that_is_none_is_not_written_to)
{
    const off_t size = (off_t)muct_xgmi_box_size();
    unsigned fds = num_open(), mapped = num_mapped();
    char path[512];

    path_of(MUCT_XGMI_BOX_SUFFIX, path, sizeof(path));
    ck_assert_int_eq(truncate(path, size - 1), 0);
    no_box();
    ck_assert_int_eq(truncate(path, size + 1), 0);
    no_box();
    ck_assert_int_eq(truncate(path, size), 0);
    inbox->box->magic ^= 1;
    no_box();
    inbox->box->magic ^= 1;
    inbox->box->owner ^= 1;
    no_box();
    inbox->box->owner ^= 1;
    ck_assert_uint_eq(num_errors, 4);
    ck_assert_uint_eq(num_open(), fds);
    ck_assert_uint_eq(num_mapped(), mapped);
    muct_xgmi_outbox_close(open_as(self.owner));
}
END_TEST

START_TEST(a_link_in_place_of_a_box_is_not_followed)
{
    unsigned fds = num_open();
    char path[512], other[600];

    path_of(MUCT_XGMI_BOX_SUFFIX, path, sizeof(path));
    snprintf(other, sizeof(other), "%s.other", path);
    ck_assert_int_eq(rename(path, other), 0);
    no_box();
    ck_assert_int_eq(symlink(other, path), 0);
    no_box();
    ck_assert_uint_eq(num_open(), fds);
}
END_TEST

START_TEST(a_box_without_its_bell_is_no_box)
{
    unsigned fds = num_open(), mapped = num_mapped();
    char path[512];

    path_of(MUCT_XGMI_BELL_SUFFIX, path, sizeof(path));
    ck_assert_int_eq(unlink(path), 0);
    no_box();
    ck_assert_uint_eq(num_open(), fds);
    ck_assert_uint_eq(num_mapped(), mapped);
}
END_TEST

/* The receiver exists: no warning is logged. */
/* XM-06 */
START_TEST(a_sender_without_descriptors_gets_an_error)
{
    muct_xgmi_outbox_t *outbox;
    struct rlimit limit;
    rlim_t most;
    int fd;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    most = limit.rlim_cur;
    fd = dup(inbox->bell_fd); /* the next one */
    ck_assert_int_ge(fd, 0);
    close(fd);
    for (limit.rlim_cur = (rlim_t)fd; limit.rlim_cur < (rlim_t)fd + 2;
         ++limit.rlim_cur) {
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        num_errors = 0;
        ck_assert_int_eq(try_open(self.owner, &outbox), UCS_ERR_NO_MEMORY);
        ck_assert_uint_eq(num_errors, 1);
    }
    limit.rlim_cur = most;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    outbox = open_as(self.owner);
    ck_assert_uint_eq(place_of(outbox), 0);
    muct_xgmi_outbox_close(outbox);
}
END_TEST

static char text[1024];

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t keep_text(
    const char *file, unsigned number, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list args)
{
    (void)file, (void)number, (void)function, (void)component;
    if (level <= UCS_LOG_LEVEL_WARN) {
        vsnprintf(text, sizeof(text), format, args);
    }
    return UCS_LOG_FUNC_RC_STOP;
}

/* Log the error, the file and the remedy, for each kind of file that is made. */
START_TEST(a_receiver_without_messages_logs_the_cause)
{
    const muct_xgmi_iface_id_t second = {1, 1};
    muct_xgmi_inbox_t *other = NULL;
    struct rlimit limit, most;
    int fd = dup(inbox->bell_fd); /* the next one */

    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &most), 0);
    limit = most;
    limit.rlim_cur = (rlim_t)(fd + _i);
    is_full = (_i == 2);
    ucs_log_push_handler(keep_text);
    if (!is_full) {
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    ck_assert_int_ne(muct_xgmi_inbox_create(dir, self.owner, second, &other), UCS_OK);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &most), 0);
    ucs_log_pop_handler();
    is_full = false;
    ck_assert_msg(strstr(text, dir) != NULL, "%s", text);
    ck_assert_msg(
        strstr(text, (_i == 0) ? MUCT_XGMI_BELL_SUFFIX : MUCT_XGMI_BOX_SUFFIX) != NULL,
        "%s", text);
    ck_assert_msg(strstr(text, (_i == 2) ? "No space left" : "Too many open") != NULL,
                  "%s", text);
    ck_assert_msg(strstr(text, (_i == 2) ? "--shm-size" : "ulimit -n") != NULL, "%s",
                  text);
}
END_TEST

/* XM-06 */
START_TEST(an_inbox_that_ends_leaves_nothing)
{
    unsigned fds, mapped;

    muct_xgmi_inbox_destroy(inbox);
    inbox = NULL;
    ck_assert(!is_there(MUCT_XGMI_BOX_SUFFIX));
    ck_assert(!is_there(MUCT_XGMI_BELL_SUFFIX));
    fds = num_open();
    mapped = num_mapped();
    ck_assert_int_eq(muct_xgmi_inbox_create(dir, self.owner, id, &inbox), UCS_OK);
    muct_xgmi_inbox_destroy(inbox);
    inbox = NULL;
    ck_assert_uint_eq(num_open(), fds);
    ck_assert_uint_eq(num_mapped(), mapped);
}
END_TEST

START_TEST(an_inbox_that_is_there_is_not_made_twice)
{
    unsigned fds = num_open();
    muct_xgmi_inbox_t *second;

    ck_assert_int_eq(muct_xgmi_inbox_create(dir, self.owner, id, &second),
                     UCS_ERR_IO_ERROR);
    ck_assert_uint_eq(num_open(), fds);
    ck_assert(is_there(MUCT_XGMI_BOX_SUFFIX));
    ck_assert(is_there(MUCT_XGMI_BELL_SUFFIX));
}
END_TEST

/* If memory were missing, the first written byte would cause a signal. */
/* XM-06 */
START_TEST(a_box_without_memory_is_an_error)
{
    unsigned fds;

    muct_xgmi_inbox_destroy(inbox);
    fds = num_open();
    is_full = true;
    ck_assert_int_eq(muct_xgmi_inbox_create(dir, self.owner, id, &inbox),
                     UCS_ERR_IO_ERROR);
    inbox = NULL;
    ck_assert_uint_eq(num_open(), fds);
    ck_assert(!is_there(MUCT_XGMI_BOX_SUFFIX));
    ck_assert(!is_there(MUCT_XGMI_BELL_SUFFIX));
}
END_TEST

/* Files of a page, of a box and of a ring */
/* XM-06 */
START_TEST(a_signal_is_not_taken_for_a_full_folder)
{
    muct_xgmi_outbox_t *outbox;

    muct_xgmi_inbox_destroy(inbox);
    inbox = NULL;
    muct_xgmi_self_close();
    num_signals = 3;
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_uint_eq(num_signals, 0);
    num_signals = 3;
    ck_assert_int_eq(muct_xgmi_inbox_create(dir, self.owner, id, &inbox), UCS_OK);
    ck_assert_uint_eq(num_signals, 0);
    num_signals = 3;
    outbox = open_as(self.owner);
    ck_assert_uint_eq(num_signals, 0);
    muct_xgmi_outbox_close(outbox);
}
END_TEST

/* The first senders and their receiver have room reserved, so a file system that fills
 * up later does not affect them. */
/* XM-06 */
START_TEST(the_first_senders_find_room_in_a_full_folder)
{
    muct_xgmi_outbox_t *boxes[FIRST];
    unsigned i;

    is_full = true;
    for (i = 0; i < FIRST; ++i) {
        boxes[i] = open_as(self.owner);
        send_one(boxes[i], i);
    }
    poll_all();
    ck_assert_uint_eq(num_got, FIRST);
    for (i = 0; i < FIRST; ++i) {
        muct_xgmi_outbox_close(boxes[i]);
    }
}
END_TEST

/* A sender sets the bit of a ring that has no memory: a read of it would be a signal
 * that ends the receiver. */
/* XM-04 */
START_TEST(a_ring_without_memory_is_not_read)
{
    is_full = true;
    atomic_store(&inbox->box->num_used, FIRST + 1);
    muct_xgmi_box_set_ready(inbox->box, FIRST);
    ck_assert_uint_eq(poll_some(AT_ONCE), 0);
    ck_assert_uint_eq(num_errors, 1);
    ck_assert(atomic_load(&inbox->box->places[FIRST].ring.is_broken));
    ck_assert_uint_eq(poll_some(AT_ONCE), 0);
    ck_assert_uint_eq(num_errors, 1);
}
END_TEST

/* XM-06 */
START_TEST(a_ring_without_memory_is_an_error)
{
    muct_xgmi_outbox_t *boxes[FIRST], *outbox;
    unsigned fds, mapped, i;

    for (i = 0; i < FIRST; ++i) {
        boxes[i] = open_as(self.owner);
    }
    fds = num_open();
    mapped = num_mapped();
    is_full = true;
    ck_assert_int_eq(try_open(self.owner, &outbox), UCS_ERR_NO_MEMORY);
    ck_assert_uint_eq(num_errors, 1);
    ck_assert_uint_eq(num_open(), fds);
    ck_assert_uint_eq(num_mapped(), mapped);
    ck_assert_uint_eq(poll_some(AT_ONCE), 0); /* which looks at no such ring */
    ck_assert_int_eq(muct_xgmi_outbox_claim(dir, self.owner, id, self.owner, sender_id,
                                            false, &outbox),
                     UCS_OK); /* an outbox that has not sent takes no room */
    muct_xgmi_outbox_close(outbox);

    is_full = false;
    outbox = open_as(self.owner);
    ck_assert_uint_eq(place_of(outbox), FIRST);
    send_one(outbox, 1);
    poll_all();
    ck_assert_uint_eq(num_got, 1);
    muct_xgmi_outbox_close(outbox);
    for (i = 0; i < FIRST; ++i) {
        muct_xgmi_outbox_close(boxes[i]);
    }
}
END_TEST

/* A second interface of the process needs a place of its own, and no broken one. */
START_TEST(a_place_belongs_to_an_interface)
{
    const muct_xgmi_iface_id_t second = {sender_id.slot + 1, sender_id.generation};
    const muct_xgmi_iface_id_t later = {sender_id.slot, sender_id.generation + 1};
    muct_xgmi_outbox_t *outbox = open_as(self.owner);
    muct_xgmi_box_t *box = inbox->box;
    unsigned i;

    for (i = 1; i < MUCT_XGMI_BOX_RINGS; ++i) {
        atomic_store(&box->places[i].owner, self.owner);
    }
    atomic_store(&box->num_used, MUCT_XGMI_BOX_RINGS);
    ck_assert(muct_xgmi_outbox_has_place(box, self.owner, sender_id));
    ck_assert(!muct_xgmi_outbox_has_place(box, self.owner, second));
    ck_assert(!muct_xgmi_outbox_has_place(box, self.owner, later));
    atomic_store(&box->places[0].ring.is_broken, 1);
    ck_assert(!muct_xgmi_outbox_has_place(box, self.owner, sender_id));
    muct_xgmi_outbox_close(outbox);
}
END_TEST

/* Another process writes to it between the claim and the first message. */
START_TEST(a_claimed_ring_that_has_a_message_is_an_error)
{
    unsigned fds, mapped = num_mapped();
    muct_xgmi_outbox_t *outbox;
    uint64_t *word;

    ck_assert_int_eq(muct_xgmi_outbox_claim(dir, self.owner, id, self.owner, sender_id,
                                            false, &outbox),
                     UCS_OK);
    word = (uint64_t *)((char *)inbox->box + muct_xgmi_box_offset(0));
    *word = UINT64_MAX;
    ck_assert_int_eq(muct_xgmi_outbox_begin(outbox, dir), UCS_ERR_IO_ERROR);
    ck_assert_uint_eq(num_errors, 1);
    fds = num_open();
    ck_assert_int_eq(muct_xgmi_outbox_begin(outbox, dir), UCS_ERR_IO_ERROR);
    ck_assert_uint_eq(num_open(), fds);
    *word = 0;
    ck_assert_int_eq(muct_xgmi_outbox_begin(outbox, dir), UCS_OK);
    send_one(outbox, 1);
    poll_all();
    ck_assert_uint_eq(num_got, 1);
    muct_xgmi_outbox_close(outbox);
    ck_assert_uint_eq(num_mapped(), mapped);
}
END_TEST

/* The sender's ring, which the receiver need not have. The warning comes at once, and
 * names a file other than the ring that would be the signal. */
/* XP-02 */
START_TEST(limit_of_file_sizes_is_logged_for_a_sender)
{
    unsigned fds = num_open(), mapped = num_mapped();
    muct_xgmi_outbox_t *outbox;

    mkv_test_set_limit(RLIMIT_FSIZE, muct_xgmi_box_size() - 1);
    ck_assert_int_eq(try_open(self.owner, &outbox), UCS_ERR_NO_MEMORY);
    mkv_test_set_limit(RLIMIT_FSIZE, RLIM_INFINITY);
    ck_assert_uint_eq(num_errors, 1);
    ck_assert_uint_eq(num_open(), fds);
    ck_assert_uint_eq(num_mapped(), mapped);
    outbox = open_as(self.owner);
    ck_assert_uint_eq(place_of(outbox), 0);
    muct_xgmi_outbox_close(outbox);
}
END_TEST


/* ---- forked children ---- */

static void in_child(void (*call)(muct_xgmi_outbox_t *outbox),
                     muct_xgmi_outbox_t *outbox)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        call(outbox);
        _exit(0);
    }
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

/* XM-06 */
START_TEST(a_forked_child_gives_no_place_back)
{
    muct_xgmi_outbox_t *outbox = open_as(self.owner), *second;

    in_child(muct_xgmi_outbox_close, outbox);
    ck_assert_uint_eq(atomic_load(&outbox->place->owner), self.owner);
    second = open_as(self.owner);
    ck_assert_uint_eq(place_of(second), 1);
    send_one(outbox, 1);
    poll_all();
    ck_assert_uint_eq(num_got, 1);
    muct_xgmi_outbox_close(outbox);
    muct_xgmi_outbox_close(second);
}
END_TEST

static void destroy_inbox(muct_xgmi_outbox_t *outbox)
{
    unsigned fds = num_open();

    (void)outbox;
    muct_xgmi_inbox_destroy(inbox);
    if (num_open() != fds - 2) { /* box and bell */
        _exit(1);
    }
}

/* XM-06 */
START_TEST(a_forked_child_withdraws_no_inbox)
{
    muct_xgmi_outbox_t *outbox;

    in_child(destroy_inbox, NULL);
    outbox = open_as(self.owner);
    send_one(outbox, 1);
    poll_all();
    ck_assert_uint_eq(num_got, 1);
    muct_xgmi_outbox_close(outbox);
}
END_TEST


static void add_files(Suite *suite)
{
    TCase *tcase = tcase_create("files");

    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, setup_room, teardown);
    tcase_add_test(tcase, a_box_that_is_none_is_not_written_to);
    tcase_add_test(tcase, a_link_in_place_of_a_box_is_not_followed);
    tcase_add_test(tcase, a_box_without_its_bell_is_no_box);
    tcase_add_test(tcase, a_sender_without_descriptors_gets_an_error);
    tcase_add_loop_test(tcase, a_receiver_without_messages_logs_the_cause, 0, 3);
    tcase_add_test(tcase, an_inbox_that_ends_leaves_nothing);
    tcase_add_test(tcase, an_inbox_that_is_there_is_not_made_twice);
    tcase_add_test(tcase, a_box_without_memory_is_an_error);
    tcase_add_test(tcase, a_signal_is_not_taken_for_a_full_folder);
    tcase_add_test(tcase, the_first_senders_find_room_in_a_full_folder);
    tcase_add_test(tcase, a_ring_without_memory_is_an_error);
    tcase_add_test(tcase, a_ring_without_memory_is_not_read);
    tcase_add_test(tcase, a_place_belongs_to_an_interface);
    tcase_add_test(tcase, a_claimed_ring_that_has_a_message_is_an_error);
    tcase_add_test(tcase, limit_of_file_sizes_is_logged_for_a_sender);
    tcase_add_test(tcase, a_forked_child_gives_no_place_back);
    tcase_add_test(tcase, a_forked_child_withdraws_no_inbox);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("xgmi_box");

    add_files(suite);
    return mkv_check_run(suite, CK_FORK_GETENV, CK_NORMAL);
}
