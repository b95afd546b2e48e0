/* SPDX-License-Identifier: Apache-2.0 */
#include "output/graph_drawing.h"

#include "base/json_write.h"

#include <stdlib.h>
#include <string.h>

enum { NODE_WIDTH = 150, NODE_STEP = 180, LAYER_STEP = 74, NOBODY = -1 };

/* ---- places */

struct place {
	int64_t layer;
	double x;    /* of the middle */
	double want; /* mean of x of the nodes that it reads */
	size_t at;
};

struct drawing {
	const struct graph *g;
	const struct drawn_node *node;
	size_t n;
	int64_t *producer; /* indexed by value: position of the node that makes it, or NOBODY */
	struct place *place;
	struct arena arena;
};

static int by_layer(const void *a, const void *b)
{
	const struct place *x = *(const struct place *const *)a, *y = *(const struct place *const *)b;

	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	if (x->want < y->want || x->want > y->want)
		return x->want < y->want ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Returns the position of the node that makes input i, or NOBODY for inputs of the model and initializers. */
static int64_t source(const struct drawing *l, size_t at, uint32_t i)
{
	uint32_t v = l->node[at].node->in[i];

	return v == NO_VALUE ? NOBODY : l->producer[v];
}

/* A node stands one layer below the lowest of the nodes that it reads. */
static void assign_layers(struct drawing *l)
{
	for (uint32_t v = 0; v < l->g->nvalues; v++)
		l->producer[v] = NOBODY;
	for (size_t at = 0; at < l->n; at++) {
		const struct node *n = l->node[at].node;
		l->place[at] = (struct place){.at = at};
		for (uint32_t i = 0; i < n->nin; i++) {
			int64_t from = source(l, at, i);
			if (from != NOBODY && l->place[from].layer >= l->place[at].layer)
				l->place[at].layer = l->place[from].layer + 1;
		}
		for (uint32_t i = 0; i < n->nout; i++)
			if (n->out[i] != NO_VALUE)
				l->producer[n->out[i]] = (int64_t)at;
	}
}

static double wanted_x(const struct drawing *l, size_t at)
{
	const struct node *n = l->node[at].node;
	double sum = 0, count = 0;

	for (uint32_t i = 0; i < n->nin; i++)
		if (source(l, at, i) != NOBODY) {
			sum += l->place[source(l, at, i)].x;
			count++;
		}
	return count > 0 ? sum / count : 0;
}

/* Gives the nodes of one layer their places from left to right, each as near as possible below what it reads. */
static void place_layer(struct place **row, size_t n)
{
	double shift = 0;

	for (size_t i = 0; i < n; i++) {
		row[i]->x = row[i]->want;
		if (i && row[i]->x < row[i - 1]->x + NODE_STEP)
			row[i]->x = row[i - 1]->x + NODE_STEP;
		shift += row[i]->want - row[i]->x;
	}
	for (size_t i = 0; i < n; i++)
		row[i]->x += shift / (double)n;
}

static void assign_places(struct drawing *l)
{
	struct place **sorted = arena_new_n(&l->arena, struct place *, l->n + 1);

	for (size_t k = 0; k < l->n; k++)
		sorted[k] = &l->place[k];
	qsort(sorted, l->n, sizeof(*sorted), by_layer);
	for (size_t from = 0, to; from < l->n; from = to) {
		for (to = from; to < l->n && sorted[to]->layer == sorted[from]->layer; to++)
			sorted[to]->want = wanted_x(l, sorted[to]->at);
		qsort(sorted + from, to - from, sizeof(*sorted), by_layer);
		place_layer(sorted + from, to - from);
	}
}

/* ---- the page */

/* Adds a text as a string of JavaScript that cannot end the script element. */
static void add_string(struct str *h, const char *text)
{
	char shown[JSON_ESCAPED_BYTES];
	const char *s = text ? text : "", *end = s + strlen(s);

	str_add(h, "\"");
	while (s < end) {
		const char *as = *s == '<' ? "\\u003c" : NULL;
		s += json_escape(s, (size_t)(end - s), shown);
		str_add(h, as ? as : shown);
	}
	str_add(h, "\"");
}

/* Pans by dragging, zooms by the wheel or two fingers; draws only what is in sight, so that thousands of nodes are fluent. */
static const char script[] =
	"(()=>{const c=document.getElementById('graph'),t=c.getContext('2d'),W=150,H=44,"
	"D=document.getElementById('graph-node'),S=getComputedStyle(document.documentElement),"
	"V=k=>S.getPropertyValue(k).trim(),col={};let n=0;N.forEach(a=>{if(!(a[3]in col))col[a[3]]=n++%6});"
	"let z=1,x=0,y=0,pick=-1,hits=new Set(),queued=0;"
	"const b=N.reduce((r,a)=>[Math.min(r[0],a[0]),Math.max(r[1],a[0]),Math.max(r[2],a[1])],[0,0,0]);"
	"const size=()=>{const r=devicePixelRatio||1;c.width=c.clientWidth*r;c.height=c.clientHeight*r;t.setTransform(r,0,0,r,0,0);draw()};"
	"const fit=()=>{z=Math.min(c.clientWidth/(b[1]-b[0]+W+60),1);x=c.clientWidth/2-z*(b[0]+b[1])/2;y=20;draw()};"
	"const paint=()=>{queued=0;const w=c.clientWidth,h=c.clientHeight,seen=a=>{const p=y+a[1]*z;return p>-H*z-200&&p<h+200};"
	"t.clearRect(0,0,w,h);t.strokeStyle=V('--dim');t.lineWidth=Math.max(.5,Math.min(1.4,z));t.globalAlpha=.6;t.beginPath();"
	"E.forEach(e=>{const a=N[e[0]],d=N[e[1]];let p=y+(a[1]+H)*z,q=y+d[1]*z;if(q<0||p>h)return;"
	"const u=x+a[0]*z,v=x+d[0]*z,m=(q-p)/2;t.moveTo(u,p);z<.15?t.lineTo(v,q):t.bezierCurveTo(u,p+m,v,q-m,v,q)});"
	"t.stroke();t.globalAlpha=1;t.textAlign='center';const f=Math.round(13*z);t.font=f+'px system-ui,sans-serif';"
	"N.forEach((a,i)=>{if(!seen(a))return;const u=x+(a[0]-W/2)*z,p=y+a[1]*z;if(u>w||u+W*z<0)return;"
	"t.fillStyle=V('--s'+col[a[3]]);t.fillRect(u,p,W*z,H*z);"
	"if(i==pick||hits.has(i)){t.strokeStyle=V('--ink');t.lineWidth=3;t.strokeRect(u-2,p-2,W*z+4,H*z+4)}"
	"if(f>5){t.fillStyle=V('--bg');t.fillText(a[3],u+W*z/2,p+18*z,W*z-6);"
	"const s=a[4];t.fillText(s,u+W*z/2,p+35*z,W*z-6)}})};"
	"const draw=()=>{queued||(queued=requestAnimationFrame(paint))};"
	"const zoom=(k,u,v)=>{k=Math.min(4,Math.max(.01,z*k))/z;x=u-(u-x)*k;y=v-(v-y)*k;z*=k;draw()};"
	"c.addEventListener('wheel',e=>{e.preventDefault();zoom(Math.exp(-e.deltaY/400),e.offsetX,e.offsetY)},{passive:false});"
	"const at=new Map();let moved=0;"
	"c.addEventListener('pointerdown',e=>{c.setPointerCapture(e.pointerId);at.set(e.pointerId,e);moved=0});"
	"c.addEventListener('pointermove',e=>{const o=at.get(e.pointerId);if(!o)return;const r=c.getBoundingClientRect();"
	"if(at.size==2){const q=[...at.values()].find(a=>a.pointerId!=e.pointerId),l=(a)=>Math.hypot(a.clientX-q.clientX,a.clientY-q.clientY);"
	"zoom(l(e)/Math.max(1,l(o)),(e.clientX+q.clientX)/2-r.left,(e.clientY+q.clientY)/2-r.top)}"
	"else{x+=e.clientX-o.clientX;y+=e.clientY-o.clientY}"
	"moved+=Math.abs(e.clientX-o.clientX)+Math.abs(e.clientY-o.clientY);at.set(e.pointerId,e);draw()});"
	"const show=i=>{pick=i;D.textContent=i<0?'Click a node for its name and shape.':N[i].slice(2).filter(s=>s).join(', ');draw()};"
	"const up=e=>{at.delete(e.pointerId);if(moved>4)return;const u=(e.offsetX-x)/z,v=(e.offsetY-y)/z;"
	"show(N.findIndex(a=>Math.abs(a[0]-u)<W/2&&v>=a[1]&&v<=a[1]+H))};"
	"c.addEventListener('pointerup',up);c.addEventListener('pointercancel',e=>at.delete(e.pointerId));"
	"document.getElementById('graph-in').onclick=()=>zoom(1.4,c.clientWidth/2,c.clientHeight/2);"
	"document.getElementById('graph-out').onclick=()=>zoom(1/1.4,c.clientWidth/2,c.clientHeight/2);"
	"document.getElementById('graph-fit').onclick=()=>{z=Math.min(c.clientWidth/(b[1]-b[0]+W+60),c.clientHeight/(b[2]+H+40),1);"
	"x=c.clientWidth/2-z*(b[0]+b[1])/2;y=20;draw()};"
	"document.getElementById('graph-find').oninput=e=>{const s=e.target.value.toLowerCase();hits=new Set();"
	"if(s)N.forEach((a,i)=>{if((a[2]+' '+a[3]).toLowerCase().includes(s))hits.add(i)});"
	"const i=[...hits][0];if(i!==undefined){z=Math.max(z,.7);x=c.clientWidth/2-N[i][0]*z;y=c.clientHeight/3-N[i][1]*z;show(i)}draw()};"
	"addEventListener('resize',size);matchMedia('(prefers-color-scheme:dark)').addEventListener('change',draw);"
	"show(-1);size();fit()})();";

static void add_data(struct drawing *l, struct str *h)
{
	const char *comma = "";

	str_add(h, "<script>const N=[");
	for (size_t k = 0; k < l->n; k++) {
		str_addf(h, "%s[%.0f,%.0f,", k ? ",\n" : "", l->place[k].x,
			 (double)l->place[k].layer * LAYER_STEP);
		add_string(h, l->node[k].name);
		str_add(h, ",");
		add_string(h, l->node[k].op);
		str_add(h, ",");
		add_string(h, l->node[k].shape);
		str_add(h, ",");
		add_string(h, l->node[k].cost);
		str_add(h, "]");
	}
	str_add(h, "],E=[");
	for (size_t k = 0; k < l->n; k++)
		for (uint32_t i = 0; i < l->node[k].node->nin; i++)
			if (source(l, k, i) != NOBODY) {
				str_addf(h, "%s[%lld,%zu]", comma, (long long)source(l, k, i), k);
				comma = ",";
			}
	str_add(h, "];\n");
	str_add(h, script);
	str_add(h, "</script>\n");
}

void page_graph(struct page *p, const struct graph *g, const struct drawn_node *node, size_t n)
{
	struct drawing l = {.g = g, .node = node, .n = n};

	l.producer = arena_new_n(&l.arena, int64_t, (size_t)g->nvalues + 1);
	l.place = arena_new_n(&l.arena, struct place, n + 1);
	assign_layers(&l);
	assign_places(&l);
	str_add(&p->html,
		"<figure class=\"graph\"><div class=\"tools\"><button id=\"graph-in\" title=\"zoom in\">+</button>"
		"<button id=\"graph-out\" title=\"zoom out\">\xe2\x88\x92</button><button id=\"graph-fit\">whole</button>"
		"<input id=\"graph-find\" type=\"search\" placeholder=\"find a node\" aria-label=\"find a node\"></div>"
		"<canvas id=\"graph\"></canvas><p id=\"graph-node\"></p></figure>\n");
	add_data(&l, &p->html);
	arena_free(&l.arena);
}
