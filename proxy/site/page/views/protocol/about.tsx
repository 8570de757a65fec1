import type { ComponentChildren, ComponentProps } from "preact";
import { nameOf } from "../../../../../schemas/names.ts";
import type { ProtocolScore } from "../../../../../schemas/records.ts";
import { renderBadge } from "../../../../../snapshots/artefacts/badge.ts";
import { Term } from "../../components/meaning.tsx";
import { frameFor } from "../../components/take-along.tsx";
import { Copyable, Facts } from "../../components/text.tsx";
import { Section } from "../../components/view.tsx";
import { useSite } from "../../model/hooks.ts";
import { grouped } from "../../model/words.ts";

export const About = ({
  record: { slug, cascade, findings, metadata, evidenceHash },
}: {
  record: ProtocolScore;
}) => (
  <div class="cards">
    <Card
      title="Cascade"
      rows={[
        [<Term about="cascade">Blast radius</Term>, grouped(cascade.blastRadius)],
        [<Term about="cascade">Upstream dependencies</Term>, grouped(cascade.upstreamDeps)],
      ]}
    />
    <Card
      title="Findings"
      rows={[
        [<Term about="findings">Critical</Term>, grouped(findings.critical)],
        [<Term about="findings">High</Term>, grouped(findings.high)],
        [<Term about="findings">Medium</Term>, grouped(findings.medium)],
      ]}
    />
    <Card
      title="About"
      rows={[
        ["Name in addresses", <code>{slug}</code>],
        ["Category", <bdi>{metadata.category}</bdi>],
        ["Chain", <bdi>{metadata.chain}</bdi>],
        [<Term about="tvl">Value locked (TVL)</Term>, metadata.tvl],
        [<Term about="contracts">Contracts</Term>, grouped(metadata.contracts)],
        [<Term about="zFactor">Z factor</Term>, metadata.zFactor],
      ]}
    />
    <Section id="evidence" class="whole" title="Evidence">
      <p class="quiet">Hash of the content behind this score</p>
      <code class="hash">{evidenceHash}</code>
    </Section>
  </div>
);

const Card = ({ title, rows }: { title: string; rows: ComponentProps<typeof Facts>["rows"] }) => (
  <Section id={title.toLowerCase()} title={title}>
    <Facts rows={rows} />
  </Section>
);

/**
 * A badge for other pages: a picture and its source. Where badges are published, the source names the file, which is
 * renewed.
 */
export function Badge({ record }: { record: ProtocolScore }) {
  const { published } = useSite().api;
  const { slug, bri, forgeScale } = record;
  const picture = renderBadge(record).text.trim();
  const frame: ComponentChildren = published !== undefined && (
    <>
      <p>The score and its dimensions, as a frame:</p>
      <Copyable
        name="Source of the frame"
        text={frameFor(`${published}embed/${slug}/index.html`, `Risk score of ${nameOf(slug)}`)}
      />
    </>
  );
  return (
    <Section id="badge" class="badge" title="Badge">
      <p>
        <img
          src={`data:image/svg+xml,${encodeURIComponent(picture)}`}
          alt={`${slug}: BRI ${bri}, ${forgeScale}`}
          height={20}
        />
      </p>
      {published === undefined && (
        <p class="quiet">A picture of this score: it does not change when the score does.</p>
      )}
      <Copyable
        name="Source of the badge"
        text={published === undefined ? picture : embedded(published, slug)}
      />
      {frame}
    </Section>
  );
}

/** HTML that shows the published badge of a protocol. It stays right when the score changes. */
function embedded(published: string, slug: string): string {
  // A document that loads nothing, because the policy of this page may forbid that address.
  const inert = document.implementation.createHTMLDocument("");
  const [link, picture] = [inert.createElement("a"), inert.createElement("img")];
  link.href = `${published}protocols/${slug}/index.html`;
  picture.src = `${published}badges/${slug}.svg`;
  picture.alt = `Risk score of ${slug}`;
  picture.height = 20;
  link.append(picture);
  return link.outerHTML;
}
