/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Data are lines of a temporary file, "what series x y": rate BATCH BYTES GB/S,
 * tail ROW US PERCENT, time ROW COMPUTE_MS TRANSFER_MS. Both programs read them.
 */

#include "perf/kv_perf/plot.h"
#include "perf/workload/error.h"

#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>


enum { PERF_PLOT_MAX_TAILS = 8 };

/* $1: the data, $2: the picture, $3: its title */
static const char perf_plot_gnuplot[] =
    "data=$1\n"
    "series() { awk -v w=\"$1\" '$1 == w && !($2 in s) { s[$2]; print $2 }' \"$data\"; }\n"
    "curves() { sep=plot; for s in $(series $1); do\n"
    "  printf '%s \"< grep \\\"^%s %s \\\" %s\" using 3:4 with %s title \"%s %s\"' \\\n"
    "    \"$sep\" $1 $s \"$data\" \"$3\" \"$2\" $s; sep=','; done; echo; }\n"
    "n=2; grep -q '^time' \"$data\" && n=3\n"
    "{ echo \"set terminal svg size 720,$((n * 240)) font 'sans,11' background 'white'\"\n"
    "  echo \"set output '$2'; set multiplot layout $n,1 title '$3' noenhanced; set grid; set key right bottom\"\n"
    "  echo \"set logscale x 2; set xlabel 'block, bytes'; set ylabel 'GB/s'; set yrange [0:*]\"\n"
    "  curves rate batch 'linespoints pointtype 7 pointsize 0.5'\n"
    "  echo \"set logscale x 10; set xlabel 'latency of a request, us'; set ylabel '% of requests'; set yrange [0:100]\"\n"
    "  curves tail row lines\n"
    "  [ $n = 2 ] || { echo \"unset logscale; set yrange [0:*]; set xlabel 'row'; set ylabel 'ms a request'\"\n"
    "    echo \"set style fill solid 0.5; set boxwidth 0.3; set xtics 1\"\n"
    "    echo \"plot '< grep ^time $data' using (\\$2-0.17):3 with boxes title 'compute of all layers', '' using (\\$2+0.17):4 with boxes title 'until all has arrived'\"; }\n"
    "} | gnuplot\n";

static const char perf_plot_matplotlib[] =
    "import sys, matplotlib; matplotlib.use('svg'); import matplotlib.pyplot as p\n"
    "rows = [l.split() for l in open(sys.argv[1])]\n"
    "def of(w):\n"
    "    d = {}\n"
    "    for r in rows:\n"
    "        if r[0] == w: d.setdefault(r[1], []).append((float(r[2]), float(r[3])))\n"
    "    return d\n"
    "n = 3 if of('time') else 2\n"
    "f, a = p.subplots(n, 1, figsize=(7.2, 2.4 * n), constrained_layout=True)\n"
    "f.suptitle(sys.argv[3])\n"
    "for i, w, s, x, y in ((0, 'rate', 'batch', 'block, bytes', 'GB/s'), (1, 'tail', 'row', 'latency of a request, us', '% of requests')):\n"
    "    for k, v in of(w).items(): a[i].plot(*zip(*v), '.-', label=s + ' ' + k)\n"
    "    a[i].set_xscale('log', base=2 if i == 0 else 10); a[i].set_xlabel(x); a[i].set_ylabel(y); a[i].set_ylim(0); a[i].grid(); a[i].legend()\n"
    "for k, v in of('time').items():\n"
    "    a[2].bar(int(k) - .17, v[0][0], .3, color='C0'); a[2].bar(int(k) + .17, v[0][1], .3, color='C1')\n"
    "    a[2].set_xlabel('row'); a[2].set_ylabel('ms a request'); a[2].legend(['compute of all layers', 'until all has arrived'])\n"
    "f.savefig(sys.argv[2])\n";

static const char perf_plot_has_gnuplot[] = "command -v gnuplot";
static const char perf_plot_has_matplotlib[] = "python3 -c 'import matplotlib'";


/* @return The command's exit status; its output goes nowhere. */
static int perf_plot_run(const char *const *argv)
{
    posix_spawn_file_actions_t actions;
    int status = -1;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
    if ((posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ) !=
         0) ||
        (waitpid(pid, &status, 0) != pid)) {
        status = -1;
    }
    posix_spawn_file_actions_destroy(&actions);
    return status;
}

static bool perf_plot_has(const char *command)
{
    const char *const argv[] = {"sh", "-c", command, NULL};

    return perf_plot_run(argv) == 0;
}

int perf_plot_open(const perf_options_t *options, perf_plot_t *plot)
{
    plot->options = options;
    plot->data = NULL;
    plot->num_rows = 0;
    if (options->plot == NULL) {
        return 0;
    }
    if (!perf_plot_has(perf_plot_has_gnuplot) &&
        !perf_plot_has(perf_plot_has_matplotlib)) {
        perf_error("--plot is '%s', but nothing here draws; install gnuplot or "
                   "matplotlib for python3",
                   options->plot);
        return -1;
    }
    plot->data = tmpfile();
    if (plot->data == NULL) {
        perf_error("--plot: no file for the data: %m");
        return -1;
    }
    return 0;
}

void perf_plot_row(perf_plot_t *plot, const perf_result_t *result)
{
    const perf_options_t *options = plot->options;
    unsigned permille;
    double compute_ms;

    if ((plot->data == NULL) || (result->wall_ns == 0) || (result->num_requests == 0)) {
        return;
    }
    ++plot->num_rows;
    fprintf(plot->data, "rate %" PRIu64 " %" PRIu64 " %.6f\n",
            result->num_descs / result->num_requests, result->block_size,
            (double)result->bytes / (double)result->wall_ns);
    for (permille = 10; (permille <= 1000) && (plot->num_rows <= PERF_PLOT_MAX_TAILS);
         permille += 10) {
        fprintf(plot->data, "tail %u %.3f %.1f\n", plot->num_rows,
                (double)perf_histogram_permille(&result->tx, permille) / 1000.0,
                permille / 10.0);
    }
    if (options->layer_us != 0) {
        compute_ms = (double)options->layer_us * result->num_layers / 1000.0;
        fprintf(plot->data, "time %u %.3f %.3f\n", plot->num_rows, compute_ms,
                perf_histogram_mean(&result->tx) / 1e6);
    }
}

int perf_plot_close(perf_plot_t *plot)
{
    char data[64], title[128];
    const char *const gnuplot[] = {
        "sh", "-c", perf_plot_gnuplot, "sh", data, plot->options->plot, title, NULL};
    const char *const python[] = {
        "python3", "-c", perf_plot_matplotlib, data, plot->options->plot, title, NULL};
    int ret = 0;

    if (plot->data == NULL) {
        return 0;
    }
    snprintf(data, sizeof(data), "/proc/%d/fd/%d", (int)getpid(), fileno(plot->data));
    snprintf(title, sizeof(title), "mori_kv_perf %s %s %s",
             (plot->options->model != NULL) ? plot->options->model : "sweep",
             perf_op_name(plot->options->op), perf_api_name(plot->options->api));
    if ((fflush(plot->data) != 0) ||
        ((plot->num_rows > 0) &&
         (perf_plot_run(perf_plot_has(perf_plot_has_gnuplot) ? gnuplot : python) !=
          0))) {
        perf_error("--plot '%s' could not be drawn", plot->options->plot);
        ret = -1;
    }
    fclose(plot->data);
    return ret;
}
